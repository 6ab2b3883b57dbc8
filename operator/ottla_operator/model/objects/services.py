"""The headless Service of a Cluster's nodes, and the bootstrap Service of its clients."""

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.addresses import (
    ADMIN_PORT,
    CONTROLLER_PORT,
    bootstrap_service,
    broker_ports,
    inside_ports,
    nodes_service,
)
from ottla_operator.model.objects.metadata import BROKER_LABEL, CLUSTER_LABEL, metadata


def nodes_service_object(cluster: Cluster) -> Document:
    spec = {
        "clusterIP": "None",
        # Nodes must find each other in order to become ready.
        "publishNotReadyAddresses": True,
        "selector": {CLUSTER_LABEL: cluster.name},
        "ports": [
            *(_service_port(name, port) for name, port in broker_ports(cluster)),
            _service_port("controller", CONTROLLER_PORT),
            _service_port("http", ADMIN_PORT),
        ],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(cluster, nodes_service(cluster)), "spec": spec}


def bootstrap_service_object(cluster: Cluster) -> Document:
    spec = {
        "type": "ClusterIP",
        # A node that is only a controller has no listener for clients.
        "selector": {CLUSTER_LABEL: cluster.name, BROKER_LABEL: "true"},
        "ports": [_service_port(name, port) for name, port in inside_ports(cluster)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(cluster, bootstrap_service(cluster)),
        "spec": spec,
    }


def _service_port(name: str, port: int) -> Document:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}

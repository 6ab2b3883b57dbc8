"""The Kubernetes objects of a Cluster, pure: the same cluster gives the same objects, byte for byte.

==================================  ===========================================================================
``Service <cluster>-nodes``         headless: a host name for each node, ready or not
``Service <cluster>-bootstrap``     where clients begin
``ConfigMap <cluster>-<pool>``      a server.properties for each node of the pool
``StatefulSet <cluster>-<pool>``    the pool's pods and, by its template, a volume for each; with TLS, the nodes'
                                    Secret (`model.cluster_secrets`) as a folder of files
==================================  ===========================================================================

All are owned by the Cluster and go with it, except the volumes: nothing owns a PersistentVolumeClaim, and a Cluster of
the same name finds them, and the id on them, again. Pods are restarted by the operator only (``OnDelete``).
"""

from collections.abc import Mapping

from ottla_operator.model.cluster_secrets import nodes_secret
from ottla_operator.model.document import API_VERSION, Document, Json
from ottla_operator.model.listeners import PLAINTEXT, Listener
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_doors import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.quantity import canonical_quantity

CLUSTER_LABEL = "ottla.dev/cluster"
POOL_LABEL = "ottla.dev/pool"
BROKER_LABEL = "ottla.dev/broker"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "ottla-operator"
REVISION_ANNOTATION = "ottla.dev/revision"
CLUSTER_ID_ANNOTATION = "ottla.dev/cluster-id"

NODES_PORT = 9091
CONTROLLER_PORT = 9093
ADMIN_PORT = 8080

_USER_ID = 10_001
"""Of the user ``ottla`` in the image, and of the files on its volumes."""
_DATA = "/var/lib/ottla"
_CONFIGURATION = "/etc/ottla"
_TLS = "/etc/ottla-tls"
"""Not inside the configuration's folder: nothing can be mounted in a volume that is read-only."""
_TLS_MODE = 0o440
_GRACE_S = 120
"""A broker hands its leaderships over before it ends."""


def place(cluster: Cluster, pool: Pool, ordinal: int) -> Place:
    """Return where a node of ``pool`` lives: the host name that its pod has by the headless service."""
    host = f"{cluster.name}-{pool.name}-{ordinal}.{nodes_service(cluster)}.{cluster.metadata.namespace}.svc"
    return Place(
        listen_host="0.0.0.0",  # noqa: S104 - a pod's own network
        client_host=host,
        client_port=cluster.listeners[0].port,
        further_client_ports=tuple(listener.port for listener in cluster.listeners[1:]),
        nodes_port=0 if cluster.tls is None else NODES_PORT,
        controller_port=CONTROLLER_PORT,
        admin_port=ADMIN_PORT,
        log_directory=f"{_DATA}/data",
        tls_directory=_TLS,
    )


def nodes_service(cluster: Cluster) -> str:
    return f"{cluster.name}-nodes"


def bootstrap_service(cluster: Cluster) -> str:
    return f"{cluster.name}-bootstrap"


def bootstrap_servers(cluster: Cluster, port: int) -> str:
    return f"{bootstrap_service(cluster)}.{cluster.metadata.namespace}.svc:{port}"


def certificate_names(cluster: Cluster) -> tuple[str, ...]:
    """Return the host names by which nodes and their clients inside Kubernetes dial the nodes of ``cluster``."""
    namespace = cluster.metadata.namespace
    nodes, bootstrap = f"*.{nodes_service(cluster)}.{namespace}", bootstrap_service(cluster)
    forms = (f"{nodes}.svc", f"{nodes}.svc.cluster.local", bootstrap)
    return (*forms, *(f"{bootstrap}.{namespace}{end}" for end in ("", ".svc", ".svc.cluster.local")))


def objects(desired: DesiredCluster, image: str) -> list[Document]:
    """Return every object of the cluster, in the order in which they are needed."""
    cluster = desired.cluster
    result = [_nodes_service(cluster), _bootstrap_service(cluster)]
    for pool, template in zip(cluster.pools, desired.templates, strict=True):
        nodes = [node for node in desired.nodes if node.pool == pool.name]
        result.append(_config_map(cluster, pool, nodes or [template]))
        result.append(_stateful_set(cluster, pool, template, len(nodes), image))
    return result


def _nodes_service(cluster: Cluster) -> Document:
    spec = {
        "clusterIP": "None",
        # Nodes must find each other in order to become ready.
        "publishNotReadyAddresses": True,
        "selector": {CLUSTER_LABEL: cluster.name},
        "ports": [
            *(_service_port(name, port) for name, port in _broker_ports(cluster)),
            _service_port("controller", CONTROLLER_PORT),
            _service_port("http", ADMIN_PORT),
        ],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(cluster, nodes_service(cluster)), "spec": spec}


def _bootstrap_service(cluster: Cluster) -> Document:
    spec = {
        "type": "ClusterIP",
        # A node that is a controller only has no door for clients.
        "selector": {CLUSTER_LABEL: cluster.name, BROKER_LABEL: "true"},
        "ports": [_service_port(name, port) for name, port in _broker_ports(cluster)],
    }
    metadata = _metadata(cluster, bootstrap_service(cluster))
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _config_map(cluster: Cluster, pool: Pool, nodes: list[DesiredNode]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(cluster, f"{cluster.name}-{pool.name}", pool),
        "data": {f"{node.name}.properties": node.properties for node in nodes},
    }


def _stateful_set(cluster: Cluster, pool: Pool, template: DesiredNode, replicas: int, image: str) -> Document:
    name = f"{cluster.name}-{pool.name}"
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(cluster, name, pool),
        "spec": {
            "serviceName": nodes_service(cluster),
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": {CLUSTER_LABEL: cluster.name, POOL_LABEL: pool.name}},
            "template": {
                "metadata": {
                    "labels": {**_labels(cluster, pool), BROKER_LABEL: str(pool.is_broker).lower()},
                    "annotations": {REVISION_ANNOTATION: template.revision},
                },
                "spec": _pod(cluster, pool, template, name, image),
            },
            "volumeClaimTemplates": [_volume_claim_template(cluster, pool)],
        },
    }


def _pod(cluster: Cluster, pool: Pool, template: DesiredNode, config_map: str, image: str) -> Document:
    configuration = f"{_CONFIGURATION}/$(POD_NAME).properties"
    format_arguments = ["format", "-t", cluster.cluster_id, "-c", configuration, "--ignore-formatted"]
    format_arguments += template.format_arguments
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER_ID,
            "runAsGroup": _USER_ID,
            "fsGroup": _USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_container("format", image, format_arguments, cluster, pool)],
        "containers": [
            {
                **_container("broker", image, ["run", "--config", configuration], cluster, pool),
                "ports": [
                    {"name": name, "containerPort": port, "protocol": "TCP"}
                    for name, port in _container_ports(cluster, pool)
                ],
                # Recovery of a large log after a crash may take minutes, and must not be killed.
                "startupProbe": _probe("/healthz", period_s=2, failures=300),
                "livenessProbe": _probe("/healthz", period_s=10, failures=6),
                "readinessProbe": _probe("/readyz", period_s=2, failures=2),
            }
        ],
        # One machine that is lost should take one node with it, where there are machines to choose from.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {CLUSTER_LABEL: cluster.name, POOL_LABEL: pool.name}},
            }
        ],
        "volumes": [
            {"name": "configuration", "configMap": {"name": config_map}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *([] if cluster.tls is None else [_tls_volume(cluster)]),
        ],
    }


def _tls_volume(cluster: Cluster) -> Document:
    """Return the volume of the nodes' certificates; pods wait until the Secret is there."""
    return {"name": "tls", "secret": {"secretName": nodes_secret(cluster.name), "defaultMode": _TLS_MODE}}


def _broker_ports(cluster: Cluster) -> list[tuple[str, int]]:
    ports = [(_port_name(listener), listener.port) for listener in cluster.listeners]
    return ports if cluster.tls is None else [*ports, ("nodes", NODES_PORT)]


def _port_name(listener: Listener) -> str:
    # The name of clusters that were there before listeners had any: pods without it would get no connections.
    return "kafka" if listener.name == PLAINTEXT.name else listener.name


def _container_ports(cluster: Cluster, pool: Pool) -> list[tuple[str, int]]:
    ports = _broker_ports(cluster) if pool.is_broker else []
    ports += [("controller", CONTROLLER_PORT)] if pool.is_controller else []
    return [*ports, ("http", ADMIN_PORT)]


def _container(name: str, image: str, arguments: list[str], cluster: Cluster, pool: Pool) -> Document:
    container: Document = {
        "name": name,
        "image": image,
        "args": arguments,
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        # The last lines of a node that ended become the reason in the Cluster's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": _DATA},
            {"name": "configuration", "mountPath": _CONFIGURATION, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container, an emptyDir
            *([] if cluster.tls is None else [{"name": "tls", "mountPath": _TLS, "readOnly": True}]),
        ],
    }
    if pool.resources:
        container["resources"] = {
            kind: {name: canonical_quantity(amount) for name, amount in amounts.items()}
            for kind, amounts in pool.resources.items()
        }
    return container


def _volume_claim_template(cluster: Cluster, pool: Pool) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": canonical_quantity(pool.storage.size)}},
    }
    if pool.storage.storage_class_name is not None:
        spec["storageClassName"] = pool.storage.storage_class_name
    return {
        "metadata": {
            "name": "data",
            "labels": _labels(cluster, pool),
            "annotations": {CLUSTER_ID_ANNOTATION: cluster.cluster_id},
        },
        "spec": spec,
    }


def _probe(path: str, *, period_s: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _service_port(name: str, port: int) -> Document:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}


def _labels(cluster: Cluster, pool: Pool | None = None) -> dict[str, str]:
    labels = {
        "app.kubernetes.io/name": "ottla",
        "app.kubernetes.io/instance": cluster.name,
        "app.kubernetes.io/component": "broker",
        MANAGED_BY_LABEL: MANAGER,
        CLUSTER_LABEL: cluster.name,
    }
    return labels if pool is None else {**labels, POOL_LABEL: pool.name}


def _metadata(cluster: Cluster, name: str, pool: Pool | None = None) -> Mapping[str, Json]:
    return {
        "name": name,
        "namespace": cluster.metadata.namespace,
        "labels": _labels(cluster, pool),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": "Cluster",
                "name": cluster.name,
                "uid": cluster.metadata.uid,
                "controller": True,
            }
        ],
    }

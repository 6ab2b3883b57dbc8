"""Metadata of every object of a Cluster: name, labels and owner reference."""

from collections.abc import Mapping

from ottla_operator.model.document import API_VERSION, Document, Json
from ottla_operator.model.manifest import Cluster, Pool

CLUSTER_LABEL = "ottla.dev/cluster"
POOL_LABEL = "ottla.dev/pool"
BROKER_LABEL = "ottla.dev/broker"
CONTROLLER_LABEL = "ottla.dev/controller"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "ottla-operator"
REVISION_ANNOTATION = "ottla.dev/revision"
PARTS_ANNOTATION = "ottla.dev/revision-parts"
"""The inputs of a pod's revision, part by part (`model.revision`)."""
CLUSTER_ID_ANNOTATION = "ottla.dev/cluster-id"
REJECTED_ANNOTATION = "ottla.dev/pod-rejected"
"""On a StatefulSet that lacks a pod, because the API server rejects it: since when."""
RACK_ANNOTATION = "ottla.dev/rack"


def labels(cluster: Cluster, pool: Pool | None = None) -> dict[str, str]:
    found = {
        "app.kubernetes.io/name": "ottla",
        "app.kubernetes.io/instance": cluster.name,
        "app.kubernetes.io/component": "broker",
        MANAGED_BY_LABEL: MANAGER,
        CLUSTER_LABEL: cluster.name,
    }
    return found if pool is None else {**found, POOL_LABEL: pool.name}


def metadata(cluster: Cluster, name: str, pool: Pool | None = None) -> Mapping[str, Json]:
    return {
        "name": name,
        "namespace": cluster.metadata.namespace,
        "labels": labels(cluster, pool),
        "ownerReferences": [{**owner(cluster), "controller": True}],
    }


def owner(cluster: Cluster) -> Document:
    """Return an owner reference to the Cluster; objects with it are deleted with the Cluster."""
    return {"apiVersion": API_VERSION, "kind": "Cluster", "name": cluster.name, "uid": cluster.metadata.uid}

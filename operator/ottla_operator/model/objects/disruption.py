"""The PodDisruptionBudget of a Cluster: how many of its pods may be evicted; `planning.cluster.disruption` decides."""

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, metadata


def has_budget(desired: DesiredCluster) -> bool:
    """Tell whether there is a budget: not for one node, whose machine could otherwise never be drained."""
    return len(desired.nodes) > 1


def disruption_budget(cluster: Cluster, allowed: int) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(cluster, cluster.name),
        "spec": {
            "maxUnavailable": allowed,
            "selector": {"matchLabels": {CLUSTER_LABEL: cluster.name}},
            # Or a machine with a node that does not come up could not be drained while nobody else may be stopped.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }

"""The PodDisruptionBudget of a Cluster; `planning.cluster.disruption` decides how many pods may be evicted."""

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.objects.metadata import CLUSTER_LABEL, metadata


def has_budget(desired: DesiredCluster) -> bool:
    """Tell whether there is a budget: not for a single node, whose Kubernetes node could otherwise never be drained."""
    return len(desired.nodes) > 1


def disruption_budget(cluster: Cluster, allowed: int) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(cluster, cluster.name),
        "spec": {
            "maxUnavailable": allowed,
            "selector": {"matchLabels": {CLUSTER_LABEL: cluster.name}},
            # Otherwise a Kubernetes node with a pod that never becomes ready could not be drained while the budget is
            # used up.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }

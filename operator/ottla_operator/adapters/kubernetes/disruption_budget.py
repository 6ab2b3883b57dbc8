"""The PodDisruptionBudget of a Cluster as observed on Kubernetes."""

from collections.abc import Mapping

from ottla_operator.adapters.kubernetes.managed_fields import is_as_written
from ottla_operator.model.document import Document
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.objects.disruption import disruption_budget, has_budget


def disruptions_allowed(desired: DesiredCluster, children: Mapping[str, Document]) -> int | None:
    """Return how many evictions the budget among ``children`` allows at once; -1 if it has to be written again.

    None if the Cluster has no budget.
    """
    if not has_budget(desired):
        return None
    found = children.get(f"PodDisruptionBudget/{desired.cluster.name}")
    allowed = None if found is None else found["spec"].get("maxUnavailable")
    if found is None or not isinstance(allowed, int):
        return -1
    return allowed if is_as_written(found, disruption_budget(desired.cluster, allowed)) else -1

"""What a Kubernetes API says of the budget by which pods of a Cluster may be evicted."""

from collections.abc import Mapping

from ottla_operator.model.document import Document, covers
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.objects.disruption import disruption_budget, has_budget


def disruptions_allowed(desired: DesiredCluster, children: Mapping[str, Document]) -> int | None:
    """Return how many evictions the budget among ``children`` allows at once; -1 where it has to be written again.

    None where there shall be none.
    """
    if not has_budget(desired):
        return None
    found = children.get(f"PodDisruptionBudget/{desired.cluster.name}")
    allowed = None if found is None else found["spec"].get("maxUnavailable")
    return allowed if isinstance(allowed, int) and covers(found, disruption_budget(desired.cluster, allowed)) else -1

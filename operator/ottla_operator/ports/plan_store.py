"""The port to plans to rebalance, where people read them."""

from typing import Protocol

from ottla.client.rebalance_plan import RebalancePlan, moves_json
from ottla_operator.model.manifest import Cluster

SUMMARY, BROKERS, MOVES = "summary.txt", "brokers.txt", "moves.json"


class PlanStore(Protocol):
    """The plans of one namespace, or of one state directory: the last one of each Cluster.

    Methods raise `HostError` when the store refuses for good, and `ApiError` or OSError when it may do it later.
    """

    async def read(self, cluster: str) -> str | None:
        """Return the moves as `moves_json` wrote them, or as somebody has changed them; None when there is no plan."""

    async def write(self, cluster: Cluster, plan: RebalancePlan) -> None:
        """Put ``plan`` in the place of the last one; on Kubernetes it goes when ``cluster`` does."""


def plan_name(cluster: str) -> str:
    return f"{cluster}-rebalance"


def texts(plan: RebalancePlan) -> dict[str, str]:
    """Return what people read, by entry."""
    return {SUMMARY: f"{plan.id}: {plan.summary}\n", BROKERS: plan.table(), MOVES: moves_json(plan.moves)}

"""The port to rebalance plans, where people read them."""

from typing import Protocol

from ottla.client.rebalance_plan import RebalancePlan, moves_json
from ottla_operator.model.manifest import Cluster

SUMMARY, BROKERS, MOVES = "summary.txt", "brokers.txt", "moves.json"


class PlanStore(Protocol):
    """The plans of one namespace, or of one state directory: the last one of each Cluster.

    Methods raise `HostError` if waiting does not help, and `ApiError` or OSError if a retry may succeed.
    """

    async def read(self, cluster: str) -> str | None:
        """Return the moves as `moves_json` wrote them, or as an administrator edited them; None without a plan."""

    async def write(self, cluster: Cluster, plan: RebalancePlan) -> None:
        """Replace the last plan by ``plan``; on Kubernetes it is deleted with ``cluster``."""


def plan_name(cluster: str) -> str:
    return f"{cluster}-rebalance"


def plan_entries(plan: RebalancePlan) -> dict[str, str]:
    """Return the files that people read, by name."""
    return {SUMMARY: f"{plan.id}: {plan.summary}\n", BROKERS: plan.table(), MOVES: moves_json(plan.moves)}

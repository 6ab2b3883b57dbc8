"""Rebalance plans as files of a state directory."""

from ottla.client.rebalance_plan import RebalancePlan
from ottla_operator.adapters.local.state_directory import StateDirectory, write_in_one_step
from ottla_operator.model.manifest import Cluster
from ottla_operator.ports.plan_store import MOVES, plan_entries, plan_name


class LocalPlans:
    """The `PlanStore` port over files: one folder for the cluster's plan."""

    def __init__(self, directory: StateDirectory) -> None:
        self._path = directory.path

    async def read(self, cluster: str) -> str | None:
        file = self._path / plan_name(cluster) / MOVES
        return file.read_text(encoding="utf-8") if file.is_file() else None

    async def write(self, cluster: Cluster, plan: RebalancePlan) -> None:
        folder = self._path / plan_name(cluster.name)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in plan_entries(plan).items():
            write_in_one_step(folder / name, text)

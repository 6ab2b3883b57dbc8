"""Rebalance plans as ConfigMaps."""

from ottla.client.rebalance_plan import RebalancePlan
from ottla_operator.adapters.kubernetes.children import Children
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.objects.metadata import metadata
from ottla_operator.ports.object_store import ObjectStore
from ottla_operator.ports.plan_store import MOVES, plan_entries, plan_name


class KubernetesPlans:
    """The `PlanStore` port over the Kubernetes API, for one namespace."""

    def __init__(self, api: ObjectStore, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def read(self, cluster: str) -> str | None:
        found = await self._api.get("ConfigMap", self._namespace, plan_name(cluster))
        moves: str | None = ((found or {}).get("data") or {}).get(MOVES)
        return moves

    async def write(self, cluster: Cluster, plan: RebalancePlan) -> None:
        name = plan_name(cluster.name)
        document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(cluster, name)}
        await Children(self._api, self._namespace).write(cluster, {**document, "data": plan_entries(plan)})

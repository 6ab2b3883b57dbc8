"""`HostBehindApi`: a host whose calls go through the API server, as those of `hosts.kubernetes` do."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any

from ottla_operator.clients.retries import APPLY
from ottla_operator.errors import ApiError
from ottla_operator.hosts.host import Host
from ottla_operator.hosts.operator_access import OperatorAccess
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.reconcile.cluster import ObservedCluster
from ottla_operator.reconcile.volumes import ObservedClaim
from ottla_operator.simulation.api import SimulatedApi
from ottla_operator.simulation.host import HostState


class HostBehindApi:
    """See the module. What reaches the server is done by ``host``, unless ``state`` shows another uid by then."""

    def __init__(self, host: Host, api: SimulatedApi, state: HostState) -> None:
        self._host = host
        self._api = api
        self._state = state

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        return await self._host.desired(cluster, leaving)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        return await self._api.call("GET", "every Pod", lambda: self._host.observe(desired))

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        return self._host.bootstrap_servers(desired, listener)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return self._host.nodes_servers(desired)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return await self._host.operator_access(desired)

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        return self._host.certificate_names(desired)

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        what = f"ConfigMaps of {', '.join(outdated)}"
        await self._api.call("PATCH", what, lambda: self._host.publish(desired, outdated), APPLY)

    async def start_node(self, node: DesiredNode) -> None:
        await self._api.call("POST", f"Pod {node.name}", lambda: self._host.start_node(node))

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        await self._delete("Pod", node.name, uid, self._state.uid_of, lambda: self._host.restart_node(node, uid))

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        await self._host.limit_disruptions(desired, allowed)

    async def remove_node(self, name: str, uid: str) -> None:
        await self._delete("Pod", name, uid, self._state.uid_of, lambda: self._host.remove_node(name, uid))

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        for claim in claims:
            remove = partial(self._host.remove_volumes, [claim])
            await self._delete("PersistentVolumeClaim", claim.node, claim.uid, self._state.volume_uid_of, remove)

    async def _delete(
        self,
        kind: str,
        name: str,
        uid: str,
        uid_of: Callable[[str], str],
        delete: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        async def effect() -> None:
            if uid and uid_of(name) != uid:
                raise ApiError(409, "Conflict", f"{kind} {name} has the uid {uid_of(name) or 'of nothing'}, not {uid}")
            await delete()

        await self._api.call("DELETE", f"{kind} {name}", effect)

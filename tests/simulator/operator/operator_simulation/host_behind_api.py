"""`HostBehindApi`: a host whose calls go through the API server, as in `adapters.kubernetes.host`."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from operator_simulation.api import SimulatedApi
from operator_simulation.host import HostState
from operator_simulation.host_wrapper import HostWrapper
from ottla_operator.errors import ApiError
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.ports.host import Host
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.volume_claims import ObservedClaim


class HostBehindApi(HostWrapper):
    """Calls that reach the server are executed by ``host``, unless ``state`` has another uid by then."""

    def __init__(self, host: Host, api: SimulatedApi, state: HostState) -> None:
        super().__init__(host)
        self._api = api
        self._state = state

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        return await self._api.call("GET", "every Pod", lambda: self._host.observe(desired))

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        what = f"ConfigMaps of {', '.join(outdated)}"
        await self._api.call("PATCH", what, lambda: self._host.publish(desired, outdated), is_apply=True)

    async def start_node(self, node: DesiredNode) -> None:
        await self._api.call("POST", f"Pod {node.name}", lambda: self._host.start_node(node))

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        await self._delete("Pod", node.name, uid, self._state.uid_of, lambda: self._host.restart_node(node, uid))

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

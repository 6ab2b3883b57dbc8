"""`HostWrapper`: base of hosts that wrap another one: passes through all calls but changes of nodes and volumes."""

from collections.abc import Collection

from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.host import Host
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess


class HostWrapper:
    """Passes calls through to the wrapped host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        return await self._host.desired(cluster, leaving)

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        return await self._host.observe(desired)

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        await self._host.limit_disruptions(desired, allowed)

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        return self._host.bootstrap_servers(desired, listener)

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return self._host.nodes_servers(desired)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return await self._host.operator_access(desired)

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        return self._host.certificate_names(desired)

"""`FailingLeaders`: leaders that do not respond, and for how long a reader waits for others in their place."""

import asyncio

from ottla.client.cluster import Cluster
from ottla.types import NodeId


class FailingLeaders:
    """See the module; by the running loop's clock."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._since_s: dict[NodeId, float] = {}

    def on_response(self, leader: NodeId) -> None:
        self._since_s.pop(leader, None)

    def may_recover(self, leader: NodeId) -> bool:
        """Note that ``leader`` has not responded; return whether its partitions may still get another leader."""
        now_s = asyncio.get_running_loop().time()
        return now_s - self._since_s.setdefault(leader, now_s) <= self._cluster.request_timeout_s

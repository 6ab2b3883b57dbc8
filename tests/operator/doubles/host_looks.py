"""A look at a Cluster on a host, as passes do it, and what is published after it."""

import asyncio

from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.host import Host
from ottla_operator.ports.observed_cluster import ObservedCluster


def look(host: Host, cluster: Cluster) -> tuple[DesiredCluster, ObservedCluster]:
    """Return what is wanted and what is there."""

    async def both() -> tuple[DesiredCluster, ObservedCluster]:
        desired = await host.desired(cluster)
        return desired, await host.observe(desired)

    return asyncio.run(both())


def publish(host: Host, cluster: Cluster) -> tuple[str, ...]:
    """Look, and publish what is outdated; return that."""
    desired, observed = look(host, cluster)
    asyncio.run(host.publish(desired, observed.outdated))
    return observed.outdated

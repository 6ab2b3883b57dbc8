"""Observes a Cluster on a host, as reconciliations do, and publishes outdated objects."""

import asyncio

from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.ports.host import Host
from ottla_operator.ports.observed_cluster import ObservedCluster


def observe(host: Host, cluster: Cluster) -> tuple[DesiredCluster, ObservedCluster]:
    """Return the desired and the observed state."""

    async def both() -> tuple[DesiredCluster, ObservedCluster]:
        desired = await host.desired(cluster)
        return desired, await host.observe(desired)

    return asyncio.run(both())


def publish(host: Host, cluster: Cluster) -> tuple[str, ...]:
    """Observe, and publish outdated objects; return their names."""
    desired, observed = observe(host, cluster)
    asyncio.run(host.publish(desired, observed.outdated))
    return observed.outdated

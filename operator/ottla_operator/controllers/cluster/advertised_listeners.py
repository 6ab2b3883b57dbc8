"""Reads the advertised addresses of running brokers."""

from ottla_operator.controllers.error_results import EXPECTED_ERRORS
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.cluster.advertised_addresses import AdvertisedListeners
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster


async def read_advertised_listeners(
    desired: DesiredCluster, observed: ObservedCluster, broker: BrokerAdmin
) -> AdvertisedListeners:
    """Return what ready brokers advertise; sends nothing if every listener is internal. Skips failed requests."""
    advertised: dict[int, str] = {}
    for node in desired.brokers:
        seen = observed.nodes.get(node.name)
        if node.place.outside and seen is not None and seen.state is NodeState.READY:
            try:
                advertised[node.node_id] = await broker.advertised_listeners(node.node_id)
            except EXPECTED_ERRORS:
                continue
    return advertised

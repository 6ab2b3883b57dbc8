"""Brokers with an outdated advertised address, which must be restarted. Pure.

Nodes of a pool share one revision, but each has its own addresses, which may become known or change while it runs.
Each broker reports its own ``advertised.listeners``: nothing has to be recorded when it is started.
"""

from collections.abc import Mapping
from dataclasses import replace

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.listeners import Listener
from ottla_operator.model.node_listeners import parse_advertised_listeners
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.outside import outside_listeners
from ottla_operator.ports.observed_cluster import ObservedCluster

ANOTHER_ADDRESS = "another-address"
"""The revision of a node with an outdated advertised address."""

AdvertisedListeners = Mapping[int, str]
"""``advertised.listeners`` of running brokers, by broker id."""


def with_advertised_addresses(
    desired: DesiredCluster, observed: ObservedCluster, advertised: AdvertisedListeners
) -> ObservedCluster:
    """Return ``observed``, but with another revision for each node with an outdated advertised address."""
    outdated = {
        node.name
        for node in desired.brokers
        if node.node_id in advertised and not _is_as_desired(node, desired, advertised[node.node_id])
    }
    nodes = {
        name: replace(seen, revision=ANOTHER_ADDRESS) if name in outdated and seen.revision is not None else seen
        for name, seen in observed.nodes.items()
    }
    return replace(observed, nodes=nodes)


def unknown_address(desired: DesiredCluster) -> Waiting | None:
    """Return the wait for the first listener without a known address; the other listeners are served."""
    if desired.outside is None:
        return None
    for listener in outside_listeners(desired.cluster):
        services = desired.outside.unknown(desired.cluster, listener)
        if services:
            more = f" and {len(services) - 1} more" if len(services) > 1 else ""
            waits = f"listener {listener.name} waits for the address of Service {services[0]}{more}"
            return Waiting("AddressUnknown", f"{waits}; nodes open it then, and serve the other listeners meanwhile")
    return None


def is_address_known(desired: DesiredCluster, listener: Listener) -> bool:
    """Return whether the advertised address of each broker is known for ``listener``."""
    return not (listener.is_outside and desired.outside is not None) or not desired.outside.unknown(
        desired.cluster, listener
    )


def _is_as_desired(node: DesiredNode, desired: DesiredCluster, advertised: str) -> bool:
    addresses = parse_advertised_listeners(advertised)
    names = {listener.name: listener.kafka_name for listener in desired.cluster.listeners}
    return all(addresses.get(names[name]) == wanted for name, wanted in node.place.outside.items())

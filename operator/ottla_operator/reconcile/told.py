"""Who tells clients outside another address than they have to dial, and must be restarted for that.

Nodes of a pool have one revision, and each has addresses of its own, which may become known or change while it runs.
What a broker tells clients is asked of itself: nothing has to be remembered of when it was started.
"""

from collections.abc import Mapping
from dataclasses import replace

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.listeners import Listener
from ottla_operator.model.node_doors import told_by
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.outside import outside_listeners
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.reconcile.verdicts import EXPECTED_ERRORS

ANOTHER_ADDRESS = "another-address"
"""The revision of a node that tells clients something else than it should."""

Told = Mapping[int, str]
"""``advertised.listeners`` as brokers run with it, by broker id."""


async def ask_what_is_told(desired: DesiredCluster, observed: ObservedCluster, broker: BrokerAdmin) -> Told:
    """Ask the brokers that are ready; nobody where every listener is internal, and who does not answer is left out."""
    told: dict[int, str] = {}
    for node in desired.brokers:
        seen = observed.nodes.get(node.name)
        if node.place.outside and seen is not None and seen.state is NodeState.READY:
            try:
                told[node.node_id] = await broker.advertised_listeners(node.node_id)
            except EXPECTED_ERRORS:
                continue
    return told


def with_told(desired: DesiredCluster, observed: ObservedCluster, told: Told) -> ObservedCluster:
    """Return ``observed``, but with another revision for each node that tells clients another address."""
    outdated = {
        node.name
        for node in desired.brokers
        if node.node_id in told and not _is_as_desired(node, desired, told[node.node_id])
    }
    nodes = {
        name: replace(seen, revision=ANOTHER_ADDRESS) if name in outdated and seen.revision is not None else seen
        for name, seen in observed.nodes.items()
    }
    return replace(observed, nodes=nodes)


def unknown_address(desired: DesiredCluster) -> Waiting | None:
    """Return that clients of some listener cannot be told whom to dial yet; the other ones are served."""
    if desired.outside is None:
        return None
    for listener in outside_listeners(desired.cluster):
        services = desired.outside.unknown(desired.cluster, listener)
        if services:
            more = f" and {len(services) - 1} more" if len(services) > 1 else ""
            words = f"listener {listener.name} waits for the address of Service {services[0]}{more}"
            return Waiting("AddressUnknown", f"{words}; nodes open it then, and serve the other listeners meanwhile")
    return None


def is_dialled(desired: DesiredCluster, listener: Listener) -> bool:
    """Tell whether clients of ``listener`` can be told where each broker is."""
    return not (listener.is_outside and desired.outside is not None) or not desired.outside.unknown(
        desired.cluster, listener
    )


def _is_as_desired(node: DesiredNode, desired: DesiredCluster, told: str) -> bool:
    addresses = told_by(told)
    names = {listener.name: listener.kafka_name for listener in desired.cluster.listeners}
    return all(addresses.get(names[name]) == wanted for name, wanted in node.place.outside.items())

"""Looks up settings of brokers and topics while they are needed: for scaling, reassignments and rebalances."""

from dataclasses import replace

from ottla.client.rebalance_plan import Move, parse_moves
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance, needs_plan, needs_stored
from ottla_operator.planning.cluster.scaling import needs_settings, throttled_topics
from ottla_operator.planning.cluster.throttling import LISTS
from ottla_operator.ports.broker_admin import BrokerAdmin
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.plan_store import PlanStore


async def look_up(
    desired: DesiredCluster, view: ClusterView, broker: BrokerAdmin, plans: PlanStore | None
) -> tuple[ClusterView, ObservedRebalance]:
    """Return the view with the settings of brokers and topics, and the input of a rebalance.

    Raises one of `EXPECTED_ERRORS`.
    """
    lookup = ObservedRebalance(can_plan=plans is not None)
    if plans is not None and needs_stored(desired.cluster):
        lookup = replace(lookup, stored=_parsed(await plans.read(desired.cluster.name)))
    if needs_plan(desired, view, lookup):
        lookup = replace(lookup, sizes_bytes=await broker.describe_sizes())
    if needs_settings(desired, view):
        configs = await broker.describe_topic_configs(throttled_topics(desired, view, lookup))
        view = replace(
            view,
            own_configs=await broker.describe_own_configs(view.live_brokers),
            topic_throttles={
                topic: {key: value for key, value in own.items() if key in LISTS} for topic, own in configs.items()
            },
        )
    return view, lookup


def _parsed(text: str | None) -> tuple[Move, ...] | None:
    """Return the stored moves; None if they were removed, or cannot be parsed."""
    try:
        return None if text is None else parse_moves(text)
    except ValueError:
        return None

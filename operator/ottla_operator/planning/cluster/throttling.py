"""Replication quotas of reassignments: the rate of each broker, and the throttled replicas. Pure. Source: KIP-73.

Brokers that copy for a reassignment get a rate, and topics the list of the replicas that move. Configs that the
operator sets are recorded before, and until they are removed; rates and lists of others stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.client.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, throttled_replicas
from ottla.types import TopicPartition
from ottla_operator.model.scaling import ScalingRecord
from ottla_operator.planning.cluster.temporary_settings import RecordedSettings
from ottla_operator.planning.steps.cluster import AlterOwnConfigs
from ottla_operator.planning.steps.topic import AlterTopicConfigs
from ottla_operator.ports.cluster_view import ClusterView

RATES = (FOLLOWER_RATE, LEADER_RATE)
LISTS = (FOLLOWER_REPLICAS, LEADER_REPLICAS)

Moves = Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]
"""The replicas of partitions before and after."""


def throttle(
    view: ClusterView,
    begins: Mapping[TopicPartition, Sequence[int]],
    rate_bytes_per_s: int | None,
    record: ScalingRecord,
) -> RecordedSettings:
    """Return the configs that throttle moves in progress, and those that start now with these targets."""
    moves = {} if rate_bytes_per_s is None else _copies(view, begins)
    rates, lists = _rates(view, moves, str(rate_bytes_per_s), record), _lists(view, moves, record)
    topics = {it.partition.topic for it in view.partitions}
    brokers_known = {*record.throttled_brokers, *(step.node_id for step in rates)}
    # The lists of a deleted topic are deleted with it.
    topics_known = {*record.throttled_topics, *(step.name for step in lists)} & topics
    throttled = {node for before, after in moves.values() for node in (*before, *after)}
    idle = [node for node in view.live_brokers if node in brokers_known - throttled]
    still = sorted(topics_known - {it.topic for it in moves})
    return RecordedSettings(
        sets=(*rates, *lists),
        lifts=(
            *(AlterTopicConfigs(topic, {}, LISTS) for topic in still),
            *(AlterOwnConfigs(node, {}, RATES) for node in idle),
        ),
        before=_with(record, brokers_known, topics_known),
        after=_with(record, brokers_known.difference(idle), topics_known.difference(still)),
    )


def _with(record: ScalingRecord, brokers: set[int], topics: set[str]) -> ScalingRecord:
    return replace(record, throttled_brokers=tuple(sorted(brokers)), throttled_topics=tuple(sorted(topics)))


def _copies(view: ClusterView, begins: Mapping[TopicPartition, Sequence[int]]) -> Moves:
    """Return the moves that copy data."""
    moves: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]] = {}
    for it in view.partitions:
        before = [node for node in it.replicas if node not in it.adding]
        after = begins.get(it.partition, it.target)
        if set(after) - set(before):
            moves[it.partition] = before, after
    return moves


def _rates(view: ClusterView, moves: Moves, rate: str, record: ScalingRecord) -> list[AlterOwnConfigs]:
    """Return the steps that give brokers the rate; one that does not respond, or has a foreign rate, gets none."""
    steps = []
    for node in sorted({node for before, after in moves.values() for node in (*before, *after)}):
        configs = view.own_configs.get(node)
        if configs is None or (node not in record.throttled_brokers and any(key in configs for key in RATES)):
            continue
        missing = {key: rate for key in RATES if configs.get(key) != rate}
        steps += [AlterOwnConfigs(node, missing, ())] if missing else []
    return steps


def _lists(view: ClusterView, moves: Moves, record: ScalingRecord) -> list[AlterTopicConfigs]:
    """Return the steps that put moving replicas into lists; a list that covers them is not shortened meanwhile."""
    steps = []
    for topic, wanted in throttled_replicas(moves).items():
        configs = view.topic_throttles.get(topic)
        if configs is None or (topic not in record.throttled_topics and any(key in configs for key in LISTS)):
            continue
        if any(_entries(text) - _entries(configs.get(key, "")) for key, text in wanted.items()):
            steps.append(AlterTopicConfigs(topic, wanted, ()))
    return steps


def _entries(text: str) -> set[str]:
    return set(filter(None, text.split(",")))

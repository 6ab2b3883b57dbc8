"""The configs that throttle the replication of reassignments, and their values. Pure. Source: KIP-73."""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.types import NodeId, TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
EVERY_REPLICA: Final = "*"


def throttled_replicas(
    moves: Mapping[TopicPartition, tuple[Sequence[NodeId], Sequence[NodeId]]],
) -> dict[str, dict[str, str]]:
    """Return by topic the entries of its two replica lists: ``partition:broker`` of sources, and of new replicas.

    ``moves`` has the replicas before and after.
    """
    lists: dict[str, dict[str, list[str]]] = {}
    for it, (before, after) in sorted(moves.items()):
        of_topic = lists.setdefault(it.topic, {LEADER_REPLICAS: [], FOLLOWER_REPLICAS: []})
        of_topic[LEADER_REPLICAS] += [f"{it.partition}:{node}" for node in sorted(before)]
        of_topic[FOLLOWER_REPLICAS] += [f"{it.partition}:{node}" for node in sorted(set(after) - set(before))]
    return {
        topic: {key: ",".join(entries) for key, entries in of_topic.items() if entries}
        for topic, of_topic in lists.items()
    }

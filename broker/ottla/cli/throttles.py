"""Throttles of moves: how much a second each broker may copy for them, as kafka-reassign-partitions sets and clears it.

A rate counts on a broker, for the replicas that a topic names: those that are copied from (leader) and those that are
filled (follower). Source: KIP-73; ReassignPartitionsCommand of Apache Kafka 4.3, which clears the rates of all brokers
also while other partitions move; here they stay until nothing does.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.output import talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.types import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
EVERY_REPLICA: Final = "*"


def throttled_replicas(
    moves: "Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]",
) -> dict[str, dict[str, str]]:
    """Return by topic what its two lists of replicas must have: ``partition:broker`` of sources, and of new replicas.

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


async def set_throttles(
    admin: "AdminClient",
    moves: "Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]",
    rate_bytes_per_s: int,
) -> None:
    """Let every broker that takes part in ``moves`` copy so much per second; to be done before they start.

    Each is asked itself, as Kafka's client does: one that is not there cannot be.
    """
    from ottla.config.resource_type import ConfigResourceType

    lists = throttled_replicas(moves)
    known = await admin.describe_topic_configs(sorted(lists))
    for topic, wanted in lists.items():
        more = {key: text for key, text in wanted.items() if known.get(topic, {}).get(key) != EVERY_REPLICA}
        await admin.alter_configs(ConfigResourceType.TOPIC, topic, appends=more)
    rates = {LEADER_RATE: str(rate_bytes_per_s), FOLLOWER_RATE: str(rate_bytes_per_s)}
    live = {broker.node_id for broker in (await admin.describe_cluster()).brokers}
    for node in sorted({node for before, after in moves.values() for node in (*before, *after)}):
        if node in live:
            await admin.alter_configs(ConfigResourceType.BROKER, str(node), upserts=rates)
        else:
            talk(f"broker {node} is not there: it gets no rate")
    talk(f"every broker that takes part copies at most {rate_bytes_per_s} B/s")


async def clear_throttles(admin: "AdminClient", topics: Iterable[str]) -> None:
    """Take the throttles from those ``topics`` that do not move, and from the brokers if nothing does."""
    from ottla.config.resource_type import ConfigResourceType

    moving = await admin.list_partition_reassignments(None)
    still = {it.topic for it in moving}
    known = await admin.describe_topic_configs(sorted(set(topics) - still))
    for topic, configs in known.items():
        if LEADER_REPLICAS in configs or FOLLOWER_REPLICAS in configs:
            await admin.alter_configs(ConfigResourceType.TOPIC, topic, deletions=[LEADER_REPLICAS, FOLLOWER_REPLICAS])
            talk(f"throttle of {topic} lifted")
    if moving:
        talk("other partitions are on the move: the brokers' rates stay")
        return
    for broker in (await admin.describe_cluster(include_fenced=True)).brokers:
        if broker.is_fenced:
            talk(f"broker {broker.node_id} is not there: if it has a rate, it keeps it")
        else:
            await admin.alter_configs(
                ConfigResourceType.BROKER, str(broker.node_id), deletions=[LEADER_RATE, FOLLOWER_RATE]
            )

"""Replication throttles of reassignments, as kafka-reassign-partitions sets and clears them.

A rate is set on a broker, and applies to the replicas in a topic's lists: the sources (leader) and the new replicas
(follower). Source: KIP-73; ReassignPartitionsCommand of Apache Kafka 4.3, which clears the rates of all brokers also
while other partitions are being reassigned; here they stay until no partition is.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.exit_codes import ExitCode
from ottla.cli.moves import start_moves, wait_for_moves
from ottla.cli.output import talk
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.types import TopicPartition

_STAYS = "the throttle stays; ottla partition reassign --verify lifts it when all has moved"


async def move_throttled(
    admin: "AdminClient",
    moves: "Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]",
    rate_bytes_per_s: int | None,
    *,
    wait_s: float | None,
) -> ExitCode:
    """Start moves (replicas before and after), and wait for their end if a time limit is given.

    With a rate, no broker copies more than that for them; it is cleared when the moves end within the time limit.
    """
    topics = {it.topic for it in moves}
    try:
        if rate_bytes_per_s is not None:
            await set_throttles(admin, moves, rate_bytes_per_s)
        await start_moves(admin, {it: target for it, (_, target) in moves.items()})
    except OttlaError:
        if rate_bytes_per_s is not None:
            await _clear_or_warn(admin, topics)
        raise
    talk(f"reassigning {len(moves)} partition(s)")
    code = ExitCode.OK if wait_s is None else await wait_for_moves(admin, list(moves), timeout_s=wait_s)
    if rate_bytes_per_s is not None:
        if wait_s is not None and code is ExitCode.OK:
            await clear_throttles(admin, topics)
        else:
            talk(_STAYS)
    return code


async def _clear_or_warn(admin: "AdminClient", topics: Iterable[str]) -> None:
    """Clear throttles after a failure; an error of this is only a message, so that the failure itself is reported."""
    try:
        await clear_throttles(admin, topics)
    except OttlaError:
        talk(_STAYS)


async def set_throttles(
    admin: "AdminClient",
    moves: "Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]",
    rate_bytes_per_s: int,
) -> None:
    """Set the rate on every broker that takes part in ``moves``; must be called before they start.

    Each broker gets its own request, as from Kafka's client, so an absent one is skipped.
    """
    from ottla.client.throttle import EVERY_REPLICA, FOLLOWER_RATE, LEADER_RATE, throttled_replicas
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
            talk(f"broker {node} is absent: no rate is set on it")
    talk(f"every broker that takes part copies at most {rate_bytes_per_s} B/s")


async def clear_throttles(admin: "AdminClient", topics: Iterable[str]) -> None:
    """Clear the throttles of ``topics`` that are not being reassigned, and of the brokers if no partition is."""
    from ottla.client.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
    from ottla.config.resource_type import ConfigResourceType

    moving = await admin.list_partition_reassignments(None)
    still = {it.topic for it in moving}
    known = await admin.describe_topic_configs(sorted(set(topics) - still))
    for topic, configs in known.items():
        if LEADER_REPLICAS in configs or FOLLOWER_REPLICAS in configs:
            await admin.alter_configs(ConfigResourceType.TOPIC, topic, deletions=[LEADER_REPLICAS, FOLLOWER_REPLICAS])
            talk(f"throttle of {topic} lifted")
    if moving:
        talk("other partitions are being reassigned: the brokers' rates stay")
        return
    for broker in (await admin.describe_cluster(include_fenced=True)).brokers:
        if broker.is_fenced:
            talk(f"broker {broker.node_id} is absent: a rate of it is not cleared")
        else:
            await admin.alter_configs(
                ConfigResourceType.BROKER, str(broker.node_id), deletions=[LEADER_RATE, FOLLOWER_RATE]
            )

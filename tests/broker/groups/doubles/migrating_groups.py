"""Groups that change their protocol, on a `GroupNode`."""

from typing import Any

from ottla.groups.config import GroupConfig
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)

SESSION_MS = 10_000
"""Of the classic members of `GroupNode.join`."""


MIGRATING = GroupConfig(
    min_session_timeout_ms=100,
    initial_rebalance_delay_ms=500,
    consumer_assignment_interval_ms=0,
    consumer_session_timeout_ms=2_000,
    consumer_session_timeout_bounds_ms=(100, 60_000),
)
"""Targets are computed without a rest, and sessions of the consumer protocol last 2 s."""


def beat(node: Any, member_id: str, epoch: int = 0, owned: dict[str, list[int]] | None = None, **said: Any) -> Any:
    """Send a heartbeat of the consumer protocol; return the response."""
    listed = [] if epoch == 0 else None
    if owned is not None:
        listed = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=node.metadata.topic_id(topic), partitions=partitions)
            for topic, partitions in owned.items()
        ]
    fields = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": ["t"]} if epoch == 0 else {}
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=listed, **{**fields, **said}
    )
    return node.call(request, 1).value


def assignment(*partitions: int, topic: str = "t") -> bytes:
    assigned = ConsumerProtocolAssignment(
        assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(partitions))]
    )
    return b"\0\0" + assigned.encode(0)


def classic_group(node: Any, *shares: tuple[int, ...], **said: Any) -> list[str]:
    """Form a stable classic group with the given partitions of topic t; return its members, the leader first."""
    joins = [node.join(**said) for _ in shares]
    node.advance(1_001)
    members = [joined.value.member_id for joined in joins]
    assign = {member_id: assignment(*share) for member_id, share in zip(members, shares, strict=True)}
    for member_id in reversed(members):
        node.sync(member_id, 1, assign if member_id == members[0] else None)
    return members


def mixed_group(node: Any, **said: Any) -> str:
    """Form a consumer group of c1, by the consumer protocol, and a classic member; return the id of that one."""
    beat(node, "c1")
    joined = node.join(**said).value
    group = node.consumer_group()
    beat(node, "c1", 2)
    beat(node, "c1", 2, owned={"t": [0, 1]})
    node.join(member_id=joined.member_id, **said)
    assert group.state is ConsumerGroupState.STABLE
    return str(joined.member_id)


def contents(node: Any) -> Any:
    """Return what the log must have of a consumer group."""
    group = node.consumer_group()
    return (
        group.members,
        group.target,
        group.epoch,
        group.assignment_epoch,
        group.metadata_hash,
        group.classic_count,
        group.classic_protocols,
        group.static_members,
        group.state,
    )

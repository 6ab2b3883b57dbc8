"""Whether a member may commit or fetch offsets, by its member epoch; classic groups have generations.

An older epoch than the member's may still commit the partitions that it has had since then (KIP-1251), in a streams
group the source partitions of active tasks: the member may have sent the commit just before it learned of the new
epoch.

Source: ConsumerGroup, StreamsGroup (validateOffsetCommit, validateOffsetFetch) of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import StreamsMember
from ottla.types import Uuid

_FIRST_VERSION_OF_MEMBERS: Final = 9
_NO_EPOCH: Final = -1

EpochGroup: TypeAlias = ConsumerGroup | StreamsGroup
"""A group whose members have epochs, and which has committed offsets."""

CheckPartition: TypeAlias = Callable[[str, Uuid, int], None]
"""Takes a topic's name and id and a partition; raises KafkaError when it may not be committed."""


def any_partition(topic: str, topic_id: Uuid, partition: int) -> None:
    """Allow every partition; see `CheckPartition`."""


def check_commit(
    group: EpochGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    is_transactional: bool = False,
) -> CheckPartition:
    """Check a commit by the member that the request names; return the check of each partition.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, for a classic member ILLEGAL_GENERATION; UNSUPPORTED_VERSION
            for an OffsetCommit of another member that has no member epochs.
    """
    if epoch < 0 and group.is_empty:
        return any_partition
    if is_transactional and epoch == _NO_EPOCH and not member_id and instance_id is None:
        # A producer that does not send the metadata of its member.
        return any_partition
    member = group.member(member_id)
    if not is_transactional and not _is_classic(member) and api_version < _FIRST_VERSION_OF_MEMBERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.member_epoch:
        return any_partition
    if epoch > member.member_epoch:
        newer = f"{epoch} is newer than current member epoch {member.member_epoch}."
        raise _stale_epoch(member, f"Received generation id {newer}", f"Received member epoch {newer}")
    if isinstance(group, StreamsGroup):
        streams_group, streams_member = group, group.member(member_id)
        return lambda topic, _, partition: _check_task(streams_group, streams_member, epoch, topic, partition)
    consumer_member = group.member(member_id)
    return lambda topic, topic_id, partition: _check_assigned(
        consumer_member,
        epoch,
        "partition",
        f"{topic}-{partition}",
        consumer_member.assignment_epoch_of(topic_id, partition),
    )


def _check_task(group: StreamsGroup, member: StreamsMember, epoch: int, topic: str, partition: int) -> None:
    subtopology_id = group.subtopology_of_source(topic)
    if subtopology_id is None:
        raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, f"Topic {topic} is not in the topology.")
    assigned_in = member.assignment_epoch_of(subtopology_id, partition)
    _check_assigned(member, epoch, "task", f"{subtopology_id}-{partition}", assigned_in)


def _check_assigned(
    member: ConsumerMember | StreamsMember, epoch: int, kind: str, name: str, assigned_in: int | None
) -> None:
    """Reject a partition or task that was assigned after ``epoch``, or is not assigned: ``assigned_in`` is None."""
    if assigned_in is None:
        message = f"{kind.capitalize()} {name} is not assigned or pending revocation for member."
        raise _stale_epoch(member, message, message)
    if epoch < assigned_in:
        older = f"{epoch} is older than assignment epoch {assigned_in} for {kind} {name}."
        raise _stale_epoch(member, f"Received generation id {older}", f"Received member epoch {older}")


def check_fetch(group: EpochGroup, member_id: str | None, epoch: int) -> None:
    """Check that a fetch comes from a member with its current epoch, or from a client that is no member.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, for a classic member ILLEGAL_GENERATION.
    """
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.member_epoch:
        mismatch = f"{epoch} does not match the expected member epoch {member.member_epoch}."
        raise _stale_epoch(member, f"The received generation id {mismatch}", f"The received member epoch {mismatch}")


def _is_classic(member: ConsumerMember | StreamsMember) -> bool:
    return isinstance(member, ConsumerMember) and member.uses_classic_protocol


def _stale_epoch(member: ConsumerMember | StreamsMember, message_of_classic: str, message: str) -> KafkaError:
    """Return the error of a wrong epoch, which classic members know as a wrong generation."""
    if _is_classic(member):
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, message_of_classic)
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)

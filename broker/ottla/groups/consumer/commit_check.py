"""Whether a member may commit or fetch offsets, by its member epoch.

An older epoch than the member's may still commit the partitions that it has had since then (KIP-1251): the member may
have sent the commit just before it learned of the new epoch.

Source: ConsumerGroup.validateOffsetCommit, validateOffsetFetch of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.types import Uuid

FIRST_VERSION_OF_MEMBERS: Final = 9
NO_EPOCH: Final = -1

CheckPartition: TypeAlias = Callable[[str, Uuid, int], None]
"""Takes a topic's name and id and a partition; raises KafkaError when it may not be committed."""


def any_partition(topic: str, topic_id: Uuid, partition: int) -> None:
    """Allow every partition; see `CheckPartition`."""


def _stale_epoch(member: ConsumerMember, message_of_classic: str, message: str) -> KafkaError:
    """Return the error of a wrong epoch, which classic members know as a wrong generation."""
    if member.uses_classic_protocol:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION, message_of_classic)
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)


def check_commit(
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    is_transactional: bool,
) -> CheckPartition:
    """Check a commit by the member that the request names; return the check of each partition.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, for a classic member ILLEGAL_GENERATION; UNSUPPORTED_VERSION
            for an OffsetCommit of another member that has no member epochs.
    """
    if epoch < 0 and group.is_empty:
        return any_partition
    if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
        # A producer that does not send the metadata of its consumer.
        return any_partition
    member = group.member(member_id)
    if not is_transactional and not member.uses_classic_protocol and api_version < FIRST_VERSION_OF_MEMBERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.member_epoch:
        return any_partition
    if epoch > member.member_epoch:
        newer = f"{epoch} is newer than current member epoch {member.member_epoch}."
        raise _stale_epoch(member, f"Received generation id {newer}", f"Received member epoch {newer}")
    return lambda topic, topic_id, partition: _check_assigned(member, epoch, topic, topic_id, partition)


def _check_assigned(member: ConsumerMember, epoch: int, topic: str, topic_id: Uuid, partition: int) -> None:
    assigned_in = member.assignment_epoch_of(topic_id, partition)
    if assigned_in is None:
        message = f"Partition {topic}-{partition} is not assigned or pending revocation for member."
        raise _stale_epoch(member, message, message)
    if epoch < assigned_in:
        older = f"{epoch} is older than assignment epoch {assigned_in} for partition {topic}-{partition}."
        raise _stale_epoch(member, f"Received generation id {older}", f"Received member epoch {older}")


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
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

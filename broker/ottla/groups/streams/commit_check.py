"""Whether a member of a streams group may commit or fetch offsets, by its member epoch.

An older epoch than the member's may still commit the source partitions of active tasks that it has had since then.

Source: StreamsGroup.validateOffsetCommit, createAssignmentEpochValidator, validateOffsetFetch of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.consumer.commit_check import FIRST_VERSION_OF_MEMBERS, NO_EPOCH, CheckPartition, any_partition
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import StreamsMember


def check_commit(
    group: StreamsGroup,
    *,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    is_transactional: bool,
) -> CheckPartition:
    """Check a commit by the member that the request names; return the check of each partition.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; UNSUPPORTED_VERSION for an OffsetCommit that has no member
            epochs.
    """
    if epoch < 0 and group.is_empty:
        return any_partition
    if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
        # A producer that does not send the metadata of its member.
        return any_partition
    member = group.member(member_id)
    if not is_transactional and api_version < FIRST_VERSION_OF_MEMBERS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if epoch == member.member_epoch:
        return any_partition
    if epoch > member.member_epoch:
        raise _stale(f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return lambda topic, _, partition: _check_task(group, member, epoch, topic, partition)


def _check_task(group: StreamsGroup, member: StreamsMember, epoch: int, topic: str, partition: int) -> None:
    subtopology_id = group.subtopology_of_source(topic)
    if subtopology_id is None:
        raise _stale(f"Topic {topic} is not in the topology.")
    assigned_in = member.assignment_epoch_of(subtopology_id, partition)
    if assigned_in is None:
        raise _stale(f"Task {subtopology_id}-{partition} is not assigned or pending revocation for member.")
    if epoch < assigned_in:
        raise _stale(
            f"Received member epoch {epoch} is older than assignment epoch {assigned_in} for task "
            f"{subtopology_id}-{partition}."
        )


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> None:
    """Check that a fetch comes from a member with its current epoch, or from a client that is no member.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    if member_id is None and epoch < 0:
        return
    member = group.member(member_id or "")
    if epoch != member.member_epoch:
        raise _stale(
            f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}."
        )


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)

"""Whether a member may commit or fetch offsets, for each protocol with member epochs; classic groups have generations.

Source: Group.validateOffsetCommit, validateOffsetFetch of Apache Kafka 4.3.
"""

from typing import TypeAlias

from ottla.groups.consumer import commit_check as consumer
from ottla.groups.consumer.commit_check import CheckPartition
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.streams import commit_check as streams
from ottla.groups.streams.group import StreamsGroup

EpochGroup: TypeAlias = ConsumerGroup | StreamsGroup
"""A group whose members have epochs, and which has committed offsets."""


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
        KafkaError: see `check_commit` of the protocols.
    """
    if isinstance(group, StreamsGroup):
        check = streams.check_commit(
            group,
            member_id=member_id,
            instance_id=instance_id,
            epoch=epoch,
            api_version=api_version,
            is_transactional=is_transactional,
        )
    else:
        check = consumer.check_commit(
            group,
            member_id=member_id,
            instance_id=instance_id,
            epoch=epoch,
            api_version=api_version,
            is_transactional=is_transactional,
        )
    return check


def check_fetch(group: EpochGroup, member_id: str | None, epoch: int) -> None:
    """Check that a fetch comes from a member with its current epoch, or from a client that is no member.

    Raises:
        KafkaError: see `check_fetch` of the protocols.
    """
    if isinstance(group, StreamsGroup):
        streams.check_fetch(group, member_id, epoch)
    else:
        consumer.check_fetch(group, member_id, epoch)

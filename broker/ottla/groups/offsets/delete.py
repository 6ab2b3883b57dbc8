"""OffsetDelete: removes offsets of topics that no member reads.

Source: OffsetMetadataManager.deleteOffsets; KIP-496.
"""

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.log import GroupRecord, offset_commit_record
from ottla.groups.offsets.member_check import EpochGroup
from ottla.groups.offsets.store import OffsetKey, OffsetStore
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(
    store: OffsetStore, group: ClassicGroup | EpochGroup | None, request: OffsetDeleteRequest
) -> CoordinatorResult[GroupRecord, OffsetDeleteResponse]:
    """Return the tombstones of the offsets to delete; offsets of subscribed topics are kept.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP: it has members whose topics are unknown.
    """
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and not group.is_empty and not group.uses_consumer_protocol:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    result: CoordinatorResult[GroupRecord, OffsetDeleteResponse] = CoordinatorResult(response=OffsetDeleteResponse())
    for topic in request.topics:
        is_subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        deleted = OffsetDeleteResponseTopic(name=topic.name)
        for partition in topic.partitions:
            key = OffsetKey(request.group_id, topic.name, partition.partition_index)
            deleted.partitions.append(
                OffsetDeleteResponsePartition(partition_index=key.partition, error_code=int(error))
            )
            if not is_subscribed and (store.get(key) is not None or store.is_pending(key)):
                result.records.append(tombstone(key))
        result.response.topics.append(deleted)
    return result


def tombstone(key: OffsetKey) -> GroupRecord:
    """Return the record that removes an offset."""
    return offset_commit_record(key.group_id, key.topic, key.partition, None)

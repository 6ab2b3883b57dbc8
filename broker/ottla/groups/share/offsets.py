"""Start offsets of share-partitions: the decisions about their changes, as records of their group.

Source: GroupMetadataManager.alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion,
completeDeleteShareGroupOffsets, shareGroupBuildPartitionDeleteRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import MESSAGES, ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.log import GroupRecord
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.initialization import initializing_record
from ottla.groups.share.records import state_partitions_record
from ottla.groups.share.state_partitions import (
    PARTITIONS_MAX,
    TOPICS_MAX,
    StatePartitions,
    StateSize,
    StateTopic,
    TopicStates,
)
from ottla.share_state.persister import SharePartitionKey
from ottla.types import Offset, Uuid
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)

NO_OFFSETS: Final = "There is no offset information to delete."


@dataclass(slots=True)
class Alteration:
    """Offsets to set at the share coordinators, and the response if that succeeds."""

    response: AlterShareGroupOffsetsResponse
    state_epoch: int
    topics: TopicStates
    offsets: dict[SharePartitionKey, Offset]


@dataclass(slots=True)
class Deletion:
    """States to delete at the share coordinators, and the results of topics that have none."""

    keys: list[SharePartitionKey] = field(default_factory=list)
    names: dict[Uuid, str] = field(default_factory=dict)
    rejected: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)


def _require_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, MESSAGES[ErrorCode.NON_EMPTY_GROUP])


def alter_offsets(
    groups: ShareGroups, request: AlterShareGroupOffsetsRequest
) -> CoordinatorResult[GroupRecord, Alteration]:
    """Return the record of share-partitions that get a new state; a group that does not exist is created.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND: it is of another protocol; NON_EMPTY_GROUP; INVALID_REQUEST: the group would
            have too many topics or partitions.
    """
    group = groups.group_to_join(request.group_id, is_join=True)
    _require_empty(group)
    names: dict[Uuid, str] = {}
    partitions: dict[Uuid, set[int]] = {}
    offsets: dict[SharePartitionKey, Offset] = {}
    response = AlterShareGroupOffsetsResponse()
    for topic in request.topics:
        topic_id = groups.topics.id_of(topic.topic_name)
        count = 0 if topic_id is None else groups.topics.partition_count_of(topic_id)
        altered = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        if topic_id is not None:
            altered.topic_id = topic_id
        for partition in topic.partitions:
            index = partition.partition_index
            result = AlterShareGroupOffsetsResponsePartition(partition_index=index)
            if topic_id is not None and 0 <= index < count:
                offsets[SharePartitionKey(request.group_id, topic_id, index)] = partition.start_offset
                names[topic_id] = topic.topic_name
                partitions.setdefault(topic_id, set()).add(index)
            else:
                result.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                result.error_message = MESSAGES[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            altered.partitions.append(result)
        response.responses.append(altered)
    topics = {topic_id: StateTopic(names[topic_id], frozenset(partitions[topic_id])) for topic_id in names}
    size = StateSize(group.state_partitions or StatePartitions())
    if not all(size.add(topic_id, added.partitions) for topic_id, added in topics.items()):
        raise InvalidRequestError(
            f"A share group has offsets of {TOPICS_MAX} topics and {PARTITIONS_MAX} partitions at most."
        )
    records = [initializing_record(group, topics)] if topics else []
    return CoordinatorResult(records=records, response=Alteration(response, group.epoch, topics, offsets))


def start_deletion(
    groups: ShareGroups, request: DeleteShareGroupOffsetsRequest
) -> CoordinatorResult[GroupRecord, Deletion]:
    """Return the record that lists the topics as being deleted.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    group = groups.group(request.group_id)
    _require_empty(group)
    state = group.state_partitions or StatePartitions()
    deletion = Deletion()
    if group.state_partitions is None:
        return CoordinatorResult(response=deletion)
    for topic in request.topics:
        topic_id = groups.topics.id_of(topic.topic_name)
        if topic_id is None:
            deletion.rejected.append(_rejected(topic.topic_name, MESSAGES[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]))
        elif topic_id in deletion.names:
            continue
        elif topic_id in state.initialized:
            partitions: Iterable[int] = sorted(state.initialized[topic_id].partitions)
            deletion.keys += [SharePartitionKey(request.group_id, topic_id, each) for each in partitions]
            deletion.names[topic_id] = topic.topic_name
        elif topic_id in state.deleting:
            # A former deletion may have failed at any of its partitions.
            partitions = range(groups.topics.partition_count_of(topic_id))
            deletion.keys += [SharePartitionKey(request.group_id, topic_id, each) for each in partitions]
            deletion.names[topic_id] = topic.topic_name
        else:
            deletion.rejected.append(_rejected(topic.topic_name, NO_OFFSETS))
    record = state_partitions_record(request.group_id, state.with_deleting(deletion.names))
    return CoordinatorResult(records=[record], response=deletion)


def _rejected(topic: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic, error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), error_message=message
    )


def finish_deletion(
    groups: ShareGroups, group_id: str, topic_ids: Iterable[Uuid]
) -> CoordinatorResult[GroupRecord, None]:
    """Return the record without topics whose state has been deleted."""
    group = groups.groups.get(group_id)
    if group is None or group.state_partitions is None:
        return CoordinatorResult(response=None)
    changed = group.state_partitions.without_deleting(topic_ids)
    if changed == group.state_partitions:
        return CoordinatorResult(response=None)
    return CoordinatorResult(records=[state_partitions_record(group_id, changed)], response=None)


def start_deletion_of_group(
    groups: ShareGroups, group_id: str
) -> CoordinatorResult[GroupRecord, list[SharePartitionKey]]:
    """Return the record that lists all topics of a group as being deleted, and what is to be deleted.

    Raises:
        KafkaError: NON_EMPTY_GROUP.
    """
    group = groups.group(group_id)
    _require_empty(group)
    state = group.state_partitions
    if state is None:
        return CoordinatorResult(response=[])
    partitions: dict[Uuid, set[int]] = {}
    names: dict[Uuid, str] = {}
    for topics in (state.initialized, state.initializing):
        for topic_id, topic in topics.items():
            partitions.setdefault(topic_id, set()).update(topic.partitions)
            names[topic_id] = topic.name
    for topic_id, name in state.deleting.items():
        count = groups.topics.partition_count_of(topic_id)
        if count:
            partitions.setdefault(topic_id, set()).update(range(count))
            names.setdefault(topic_id, name)
    record = state_partitions_record(
        group_id, StatePartitions(deleting={topic_id: names[topic_id] for topic_id in partitions})
    )
    keys = [SharePartitionKey(group_id, topic_id, each) for topic_id in partitions for each in partitions[topic_id]]
    return CoordinatorResult(records=[record], response=keys)

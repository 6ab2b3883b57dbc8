"""`ShareOffsetService`: Describe-, Alter- and DeleteShareGroupOffsets, and the states of a group that is deleted.

Source: GroupCoordinatorService of Apache Kafka 4.3 (describeShareGroupOffsets, alterShareGroupOffsets,
deleteShareGroupOffsets, deleteShareGroups).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.errors import MESSAGES, ErrorCode, KafkaError
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.share.deleted_topics import remove_deleted_topics
from ottla.groups.share.end_offsets import EndOffset, EndOffsets
from ottla.groups.share.offsets import (
    Alteration,
    Deletion,
    alter_offsets,
    finish_deletion,
    start_deletion,
    start_deletion_of_group,
)
from ottla.groups.share.persistence import delete_in_slices, first_error, initialize_in_slices
from ottla.groups.share.service import ShareGroupService, ShareGroupShard
from ottla.groups.share.state_partitions import StateTopic
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, batches, values_in_steps
from ottla.share_state.persister import (
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    Persister,
    SharePartitionKey,
    StateResult,
    StateSummary,
)
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_ANY_LEADER: Final = -1
_ENDS_PER_STEP: Final = 50
_UNKNOWN_PARTITION: Final = StateSummary(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."

ResponseT = TypeVar("ResponseT")


class ShareOffsetService:
    """Operations on the start offsets of share groups."""

    def __init__(
        self,
        *,
        runtime: CoordinatorRuntime[ShareGroupShard],
        persister: Persister,
        end_offsets: EndOffsets,
        topics: ClusterTopics,
        members: ShareGroupService,
    ) -> None:
        self._runtime = runtime
        self._persister = persister
        self._end_offsets = end_offsets
        self._topics = topics
        self._members = members

    # Description

    def describe_offsets(
        self, request: DescribeShareGroupOffsetsRequestGroup
    ) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
        """Return start offset and lag of the partitions in ``request``, or of all that are initialized.

        The group need not exist: partitions without state have the offset -1.
        """
        described = DescribeShareGroupOffsetsResponseGroup(group_id=request.group_id)
        requested: list[tuple[Uuid, str, Iterable[int]]] = []
        if request.topics is None:
            try:
                context = self._runtime.context_for(request.group_id)
            except KafkaError as error:
                return failed_description(request.group_id, error.code, MESSAGES.get(error.code))
            group = context.shard.shares.groups.get(request.group_id)
            state = None if group is None else group.state_partitions
            committed = context.when_committed()
            outcome = committed.value if committed.is_complete else (yield committed)
            if outcome is not ErrorCode.NONE:
                return failed_description(request.group_id, outcome, MESSAGES.get(outcome))
            for topic_id, topic in ({} if state is None else state.initialized).items():
                if self._topics.name_of(topic_id) is not None:
                    requested.append((topic_id, topic.name, sorted(topic.partitions)))
        else:
            for wanted in request.topics:
                known_id = self._topics.id_of(wanted.topic_name)
                if known_id is None:
                    described.topics.append((yield from _unknown_topic(wanted.topic_name, wanted.partitions)))
                else:
                    requested.append((known_id, wanted.topic_name, wanted.partitions))
        if requested and not request.group_id:
            return failed_description("", ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED)
        for topic_id, name, partitions in requested:
            described.topics.append((yield from self._describe_topic(request.group_id, topic_id, name, partitions)))
        return described

    def _describe_topic(
        self, group_id: str, topic_id: Uuid, name: str, partitions: Iterable[int]
    ) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
        indices = list(partitions)
        count = self._topics.partition_count_of(topic_id)
        sent: dict[int, Delayed[StateSummary]] = {}
        for number, index in enumerate(indices, 1):
            # Once for each, and only for those that exist: a request may name any number a thousand times.
            if index not in sent and 0 <= index < count:
                key = SharePartitionKey(group_id, topic_id, index)
                sent[index] = self._persister.read_summary(key, leader_epoch=_ANY_LEADER)
            if number % ITEMS_PER_STEP == 0:
                yield None
        values = yield from values_in_steps(list(sent.values()))
        summaries = dict(zip(sent, values, strict=True))
        ends: dict[int, Delayed[EndOffset]] = {}
        for some in batches(summaries.items(), _ENDS_PER_STEP):
            with_lag = [index for index, it in some if _has_lag(it)]
            partitions_of_step = [TopicPartition(name, index) for index in with_lag]
            ends.update(zip(with_lag, self._end_offsets.list_latest(partitions_of_step), strict=True))
            yield None
        topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
        for number, index in enumerate(indices, 1):
            end = ends.get(index)
            if end is not None and not end.is_complete:
                yield end
            summary = summaries.get(index, _UNKNOWN_PARTITION)
            topic.partitions.append(_describe_partition(index, summary, None if end is None else end.value))
            if number % ITEMS_PER_STEP == 0:
                yield None
        return topic

    # Changes

    def alter_offsets(self, request: AlterShareGroupOffsetsRequest) -> Delayed[AlterShareGroupOffsetsResponse]:
        """Set start offsets of a group without members."""

        def failed(error: ErrorCode, message: str | None = None) -> Delayed[AlterShareGroupOffsetsResponse]:
            return Delayed.of(
                AlterShareGroupOffsetsResponse(error_code=int(error), error_message=message or MESSAGES.get(error))
            )

        if not request.group_id:
            return failed(ErrorCode.INVALID_GROUP_ID)
        try:
            context = self._runtime.context_for(request.group_id)
            groups = context.shard.shares
            result = alter_offsets(groups, request)
        except KafkaError as error:
            return failed(error.code, error.message)
        alteration = result.response
        return _after(
            context.write(result),
            lambda: initialize_in_slices(
                groups.jobs,
                self._persister,
                request.group_id,
                list(alteration.offsets.items()),
                state_epoch=alteration.state_epoch,
            ),
            lambda results: Delayed.of(self._finish_alteration(request.group_id, alteration, results)),
            failed,
        )

    def _finish_alteration(
        self, group_id: str, alteration: Alteration, results: Sequence[StateResult]
    ) -> AlterShareGroupOffsetsResponse:
        response = alteration.response
        failures = {key: each for key, each in zip(alteration.offsets, results, strict=True) if each.error}
        # If one fails, Kafka records none of them as initialized: a heartbeat would reset those that have succeeded.
        succeeded: dict[Uuid, set[int]] = {}
        for key in alteration.offsets:
            if key not in failures:
                succeeded.setdefault(key.topic_id, set()).add(key.partition)
        self._members.finish_initialization(
            group_id,
            {
                topic_id: StateTopic(alteration.topics[topic_id].name, frozenset(partitions))
                for topic_id, partitions in succeeded.items()
            },
            ErrorCode.NONE,
        )
        # The others stay initializing. A heartbeat initializes those again that had no state before.
        for topic in response.responses:
            for partition in topic.partitions:
                failure = failures.get(SharePartitionKey(group_id, topic.topic_id, partition.partition_index))
                if failure is not None:
                    partition.error_code, partition.error_message = int(failure.error), failure.message
        return response

    def delete_offsets(self, request: DeleteShareGroupOffsetsRequest) -> Delayed[DeleteShareGroupOffsetsResponse]:
        """Delete the states of topics of a group without members."""

        def failed(error: ErrorCode, message: str | None = None) -> Delayed[DeleteShareGroupOffsetsResponse]:
            return Delayed.of(
                DeleteShareGroupOffsetsResponse(error_code=int(error), error_message=message or MESSAGES.get(error))
            )

        if not request.group_id:
            return failed(ErrorCode.INVALID_GROUP_ID)
        try:
            context = self._runtime.context_for(request.group_id)
            groups = context.shard.shares
            result = start_deletion(groups, request)
        except KafkaError as error:
            return failed(error.code, error.message)
        deletion = result.response
        return _after(
            context.write(result),
            lambda: delete_in_slices(groups.jobs, self._persister, request.group_id, deletion.keys),
            lambda results: self._finish_deletion(request.group_id, deletion, results),
            failed,
        )

    def _finish_deletion(
        self, group_id: str, deletion: Deletion, results: Sequence[StateResult]
    ) -> Delayed[DeleteShareGroupOffsetsResponse]:
        failures: dict[Uuid, StateResult] = {}
        for key, each in zip(deletion.keys, results, strict=True):
            if each.error:
                failures.setdefault(key.topic_id, each)
        topics = list(deletion.rejected)
        for topic_id, name in deletion.names.items():
            topic = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            if failure := failures.get(topic_id):
                topic.error_code, topic.error_message = int(failure.error), failure.message
            topics.append(topic)
        response = DeleteShareGroupOffsetsResponse(responses=topics)
        deleted = deletion.names.keys() - failures.keys()
        if not deleted:
            return Delayed.of(response)
        return self._runtime.run_write_operation(
            group_id,
            lambda shard: finish_deletion(shard.shares, group_id, deleted).with_response(response),
            lambda error: DeleteShareGroupOffsetsResponse(error_code=int(error)),
        )

    def delete_states_of_group(self, group_id: str) -> Delayed[ErrorCode]:
        """Delete the states of a share group without members, before the group; NONE also for another kind of group."""

        def failed(error: ErrorCode, _: str | None = None) -> Delayed[ErrorCode]:
            return Delayed.of(error)

        try:
            context = self._runtime.context_for(group_id)
            groups = context.shard.shares
            if group_id not in groups.groups:
                return Delayed.of(ErrorCode.NONE)
            result = start_deletion_of_group(groups, group_id)
        except KafkaError as error:
            return failed(error.code)
        return _after(
            context.write(result),
            lambda: delete_in_slices(groups.jobs, self._persister, group_id, result.response),
            lambda results: failed(first_error(results)),
            failed,
        )

    def on_topics_deleted(self) -> None:
        """Remove deleted topics from the records of all groups."""
        for shard in self._runtime.active_shards():
            remove_deleted_topics(shard.shares)


def failed_description(
    group_id: str, error: ErrorCode, message: str | None = None
) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=int(error), error_message=message)


def _has_lag(summary: StateSummary) -> bool:
    return (
        summary.error is ErrorCode.NONE
        and summary.start_offset != UNINITIALIZED_OFFSET
        and summary.delivery_complete_count != UNKNOWN_COUNT
    )


def _describe_partition(
    index: int, summary: StateSummary, end: EndOffset | None
) -> DescribeShareGroupOffsetsResponsePartition:
    if summary.error is not ErrorCode.NONE:
        # Kafka hides the error: a client sees a share-partition without state.
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED_OFFSET)
    if end is not None and end.error is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=int(end.error), error_message=MESSAGES.get(end.error)
        )
    described = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch
    )
    if end is not None:
        described.lag = end.offset - summary.start_offset - summary.delivery_complete_count
    return described


def _unknown_topic(name: str, partitions: Sequence[int]) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
    topic = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    for number, index in enumerate(partitions, 1):
        topic.partitions.append(
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED_OFFSET)
        )
        if number % ITEMS_PER_STEP == 0:
            yield None
    return topic


def _after(
    written: Delayed[ErrorCode],
    send: Callable[[], Delayed[list[StateResult]]],
    finish: Callable[[list[StateResult]], Delayed[ResponseT]],
    failed: Callable[[ErrorCode], Delayed[ResponseT]],
) -> Delayed[ResponseT]:
    """Return what ``finish`` returns for the results of ``send``, which is called once the records are committed."""
    return written.then_compose(lambda error: send().then_compose(finish) if error is ErrorCode.NONE else failed(error))

"""WriteTxnMarkers (api key 27, v1-v2): end transactions in the partitions that this node leads (KIP-98).

v2 the transaction version, under which a marker's producer epoch is checked (KIP-1228).
Source: WriteTxnMarkersRequest.json; KafkaApis.handleWriteTxnMarkersRequest of Apache Kafka 4.3.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from ottla.coordinator.transactions import TransactionEnd
from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps
from ottla.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_PARTITIONS_PER_STEP: Final = 256
_APPENDS_PER_STEP: Final = 4
_NOT_READY: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)

_Outcomes: TypeAlias = "dict[str, dict[int, Delayed[ErrorCode]]]"
"""Of the markers of one producer, by topic and partition."""
_Append: TypeAlias = Callable[[RequestContext, TopicPartition, TransactionEnd], Delayed[ErrorCode]]


@serves(api_key=27, versions=range(1, 3))
def write_txn_markers(context: RequestContext, request: WriteTxnMarkersRequest) -> Steps[HandlerResult]:
    """Append each marker to its partitions; respond when all of them are committed or have failed."""
    may_alter = context.would_be_allowed(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    append = _append if may_alter or context.may_on_cluster(Operation.CLUSTER_ACTION) else _reject
    outcomes: dict[int, _Outcomes] = {}
    for marker in request.markers:
        yield from _write(context, marker, append, outcomes)
        yield None
    response = WriteTxnMarkersResponse()
    for producer_id in list(outcomes):
        yield None
        result = WritableTxnMarkerResult(producer_id=producer_id)
        # Removed one by one, as below: freeing 45,000 dictionaries at once takes milliseconds.
        by_topic = outcomes.pop(producer_id)
        for name in list(by_topic):
            partitions = yield from _results(by_topic.pop(name))
            result.topics.append(WritableTxnMarkerTopicResult(name=name, partitions=partitions))
            if len(result.topics) % ITEMS_PER_STEP == 0:
                yield None
        response.markers.append(result)
    return response


def _write(
    context: RequestContext, marker: WritableTxnMarker, append: _Append, outcomes: dict[int, _Outcomes]
) -> Steps[None]:
    """Append one marker; duplicates of a partition receive it once, and a marker without partitions has no result."""
    end = TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    indexes: dict[str, dict[int, None]] = {}
    for topic in marker.topics:
        of_topic = indexes.setdefault(topic.name, {})
        partitions = iter(topic.partition_indexes)
        while some := list(islice(partitions, _PARTITIONS_PER_STEP)):
            of_topic.update(dict.fromkeys(some))
            yield None
    for name in list(indexes):
        yield None
        for number, index in enumerate(indexes.pop(name), 1):
            written = append(context, TopicPartition(name, index), end)
            outcomes.setdefault(marker.producer_id, {}).setdefault(name, {})[index] = written
            if number % _APPENDS_PER_STEP == 0:
                yield None


def _append(context: RequestContext, topic_partition: TopicPartition, end: TransactionEnd) -> Delayed[ErrorCode]:
    services = context.services
    if services.replicas.find(*topic_partition) is None:
        return Delayed.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if end.producer_id == NO_PRODUCER_ID or end.producer_epoch == NO_PRODUCER_EPOCH:
        # No batch can be built for it; Kafka fails with IllegalArgumentException.
        return Delayed.of(ErrorCode.UNKNOWN_SERVER_ERROR)
    if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
        # The marker also ends the pending offsets in the group coordinator's memory.
        return services.groups.end_transaction(topic_partition.partition, end).then(_error_for_transaction_coordinator)
    marker = end.build_marker(services.clock.wall_ms())
    return services.replicas.append_committed(topic_partition, marker, transaction_version=end.transaction_version)


def _reject(_context: RequestContext, _topic_partition: TopicPartition, _end: TransactionEnd) -> Delayed[ErrorCode]:
    return Delayed.of(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _error_for_transaction_coordinator(error: ErrorCode) -> ErrorCode:
    """Return an error that a transaction coordinator knows, and retries, for a group coordinator that is not ready."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NOT_READY else error


def _results(written: dict[int, Delayed[ErrorCode]]) -> Steps[list[WritableTxnMarkerPartitionResult]]:
    results: list[WritableTxnMarkerPartitionResult] = []
    for index in list(written):
        outcome = written.pop(index)
        error = outcome.value if outcome.is_complete else (yield outcome)
        results.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
        if len(results) % _PARTITIONS_PER_STEP == 0:
            yield None
    return results

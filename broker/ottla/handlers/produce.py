"""Produce (api key 0, v3-v13): append one record batch to each of some partitions.

v5 log_start_offset in answers; v8 record errors; v9 flexible; v10 the current leader of moved partitions (KIP-951); v12
implicit transaction enlistment (KIP-890); v13 topic ids.
Not done: transactional batches are refused with INVALID_TXN_STATE, as no transaction can have been started here.
Source: ProduceRequest.json; KafkaApis.handleProduceRequest, ReplicaManager.appendRecords of Apache Kafka 4.3.
"""

import struct

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError
from ottla.handlers.api import Answer, CloseConnection, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.log.partition_log import AppendOrigin, RecordValidationError
from ottla.replication.partition import Partition
from ottla.types import Offset
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.records import LOG_OVERHEAD_BYTES, Compression

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_TRANSACTIONAL_BIT = 0x10
_ATTRIBUTES_LOW_BYTE = 22

_BATCH_START = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_HEADER_UP_TO_MAGIC_BYTES = _BATCH_START.size
_SMALLEST_LENGTH = 14
_MAGIC = 2
_COMPRESSION_BITS = 0x07
_FIRST_VERSION_WITH_ZSTD = 7

_Waiting = list[tuple[Partition, Offset, PartitionProduceResponse]]


@serves(api_key=0, versions=range(3, 14))
def produce(context: RequestContext, request: ProduceRequest) -> Answer:
    """Append to every partition; respond now, or once all of it is committed (acks=all) or on this disk."""
    response = ProduceResponse()
    waiting: _Waiting = []
    for topic in request.topic_data:
        response.responses.append(_append_topic(context, request, response, topic, waiting))
    if request.acks == 0:
        return _answer_nothing(response)
    if not waiting:
        return response
    return context.services.replicas.produce_purgatory.watch(
        [partition.topic_partition for partition, _, _ in waiting],
        deadline_ms=context.received_at_ms + request.timeout_ms,
        try_complete=lambda: response if _complete_acknowledgeable(waiting, request.acks) else None,
        on_deadline=lambda: _time_out(response, waiting),
    )


def _append_topic(
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    topic: TopicProduceData,
    waiting: _Waiting,
) -> TopicProduceResponse:
    replicas = context.services.replicas
    name: str | None = topic.name
    if context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        name = context.services.metadata.topic_name(topic.topic_id)
    is_allowed = name is None or context.may_on_topic(Operation.WRITE, name)
    answers = []
    for data in topic.partition_data:
        answer = PartitionProduceResponse(index=data.index)
        answers.append(answer)
        try:
            if name is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            if not is_allowed:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            _append(context, request, name, data, answer, waiting)
        except RecordValidationError as error:
            _refuse(answer, error)
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=wrong.batch_index, batch_index_error_message=wrong.message)
                for wrong in error.record_errors
            ]
        except KafkaError as error:
            _refuse(answer, error)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and name is not None:
                add_moved_leader(context, answer.current_leader, response.node_endpoints, name, data.index)
        # A name that no topic has leaves nothing behind: there are as many as clients care to invent.
        if answer.error_code and name is not None and context.services.metadata.topic(name) is not None:
            replicas.traffic_of(name).failed_produce_requests += 1
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _append(
    context: RequestContext,
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    waiting: _Waiting,
) -> None:
    """Append one partition's batch and fill in its answer.

    Raises:
        KafkaError: the partition refuses; nothing was written.
    """
    if not -1 <= request.acks <= 1:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    records = data.records
    assert records is None or isinstance(records, memoryview), "requests are decoded from one buffer"
    _check_shape(records, context.api_version)
    assert records is not None
    if records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open for this producer")
    replicas = context.services.replicas
    partition = replicas.get(topic, data.index)
    result = replicas.append(partition, records, origin=AppendOrigin.CLIENT, required_acks=request.acks)
    answer.base_offset = result.first_offset
    answer.log_append_time_ms = result.log_append_time_ms
    answer.log_start_offset = result.log_start_offset
    traffic = replicas.traffic_of(topic)
    traffic.produce_requests += 1
    traffic.messages_in += result.last_offset - result.first_offset + 1
    traffic.bytes_in += len(records)
    if request.acks == 0:
        return
    if partition.is_acknowledgeable(result.last_offset, request.acks):
        answer.error_code = partition.acknowledgement_error(request.acks)
    else:
        waiting.append((partition, result.last_offset, answer))


def _check_shape(records: memoryview | None, version: int) -> None:
    """Refuse what is not at least one whole batch of magic 2, in Kafka's order and with its codes.

    The log checks the rest. Source: ProduceRequest.validateRecords, ByteBufferLogInputStream.nextBatch.
    """
    size = 0 if records is None else len(records)
    if records is None or size < _HEADER_UP_TO_MAGIC_BYTES:
        raise InvalidRecordError(
            f"Produce requests with version {version} are not allowed to contain no record batches"
        )
    _, length, _, magic = _BATCH_START.unpack_from(records)
    if length < _SMALLEST_LENGTH:
        raise CorruptRecordError(f"a record batch claims a length of {length}, less than any record needs")
    if not 0 <= magic <= _MAGIC:
        raise CorruptRecordError(f"Invalid magic found in record: {magic}")
    if size < LOG_OVERHEAD_BYTES + length:
        raise InvalidRecordError(f"a record batch claims {length} bytes with {size - LOG_OVERHEAD_BYTES} left")
    if magic != _MAGIC:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
    if version < _FIRST_VERSION_WITH_ZSTD and records[_ATTRIBUTES_LOW_BYTE] & _COMPRESSION_BITS == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )


def _refuse(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.base_offset = -1


def _complete_acknowledgeable(waiting: _Waiting, required_acks: int) -> bool:
    """Settle what may be acknowledged, or is no longer led; return whether nothing waits any more."""
    still = []
    for partition, last_offset, answer in waiting:
        if not partition.is_leader:
            _refuse(answer, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif partition.is_acknowledgeable(last_offset, required_acks):
            answer.error_code = partition.acknowledgement_error(required_acks)
        else:
            still.append((partition, last_offset, answer))
    waiting[:] = still
    return not still


def _time_out(response: ProduceResponse, waiting: _Waiting) -> ProduceResponse:
    for _, _, answer in waiting:
        _refuse(answer, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    return response


def _answer_nothing(response: ProduceResponse) -> Answer:
    """With acks=0 the only way to tell of an error is to close the connection: the client then asks for metadata."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                code = ErrorCode(answer.error_code).name
                return CloseConnection(f"produced with acks=0 and failed with {code}")
    return None

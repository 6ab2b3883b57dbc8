"""Produce (api key 0, v3-v13): append one record batch to each of some partitions.

v5 log_start_offset; v8 record errors; v9 flexible; v10 the current leader of moved partitions (KIP-951); v12 implicit
transaction enlistment (KIP-890); v13 topic ids.
All batches are checked before the first is appended. If a check takes long, nothing has been appended yet, and the
request is handled in steps: there each batch is appended after its own check, to the partition's state at that time.
A request with a transactional id is handled in steps, too: its coordinator is asked first (`produce_transaction`).
Source: ProduceRequest.json; KafkaApis.handleProduceRequest, ReplicaManager.appendRecords of Apache Kafka 4.3.
"""

import struct
from collections.abc import Iterable, Iterator

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError
from ottla.handlers.api import CloseConnection, HandlerResult, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.handlers.produce_transaction import (
    FIRST_VERSION_THAT_ADDS_PARTITIONS,
    FIRST_VERSION_WITH_ABORTABLE,
    is_transactional,
    read_producer,
    to_produce_error,
)
from ottla.log.batch_check import CheckedBatch, check_at_once, check_in_steps
from ottla.log.partition_log import AppendOrigin, RecordValidationError
from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all
from ottla.purgatory.steps import Steps
from ottla.replication.partition import Partition
from ottla.transactions.append_attempt import AppendAttempt, verify_attempts
from ottla.types import Offset, ProducerId
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records import LOG_OVERHEAD_BYTES, Compression

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_CURRENT_LEADER = 10
_ATTRIBUTES_LOW_BYTE = 22

_BATCH_START = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_HEADER_UP_TO_MAGIC_BYTES = _BATCH_START.size
_SMALLEST_LENGTH = 14
_MAGIC = 2
_COMPRESSION_BITS = 0x07
_FIRST_VERSION_WITH_ZSTD = 7
_PARTITIONS_AT_ONCE = 32

_ERRORS_WITH_LOG_START = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH}
)
"""Of the append itself: as in Kafka, these responses have the log's start offset."""

_Waiting = list[tuple[Partition, Offset, PartitionProduceResponse]]


@serves(api_key=0, versions=range(3, 14))
def produce(context: RequestContext, request: ProduceRequest) -> HandlerResult:
    """Append to every partition; respond now, or once all of it is committed (acks=all) or on this disk."""
    topics = request.topic_data
    count = len(topics)
    if count <= _PARTITIONS_AT_ONCE:
        # Most requests have one topic, for which a sum would cost more than the rest of this.
        count = len(topics[0].partition_data) if count == 1 else sum(len(topic.partition_data) for topic in topics)
    if count > _PARTITIONS_AT_ONCE or request.transactional_id is not None:
        return _produce_in_steps(context, request)
    produce = _Produce(context, request)
    entries = list(produce.entries())
    now_ms = context.services.clock.wall_ms()
    for entry in entries:
        try:
            partition, records = produce.admit(entry)
            log = partition.log
            checked = check_at_once(records, log.config, log.topic_partition, now_ms)
        except KafkaError as error:
            entry.error = error
            continue
        if checked is None:
            return _produce_in_steps(context, request)
        entry.partition, entry.checked = partition, checked
    for entry in entries:
        produce.append(entry)
    return produce.respond()


def _produce_in_steps(context: RequestContext, request: ProduceRequest) -> Steps[HandlerResult]:
    """Produce to many partitions, or batches that take long to check, in slices."""
    produce = _Produce(context, request)
    services = context.services
    off_loop = context.off_loop()
    now_ms = services.clock.wall_ms()
    entries: Iterable[_Entry] = produce.entries()
    if request.transactional_id is not None:
        entries = yield from produce.verify_transaction(entries)
    for entry in entries:
        try:
            if entry.error is not None:
                raise entry.error
            partition, records = produce.admit(entry)
            config, topic_partition = partition.log.config, partition.topic_partition
            entry.checked = yield from check_in_steps(records, config, topic_partition, now_ms, off_loop)
            if not services.replicas.holds(partition):
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            entry.partition = partition
        except KafkaError as error:
            entry.error = error
        produce.append(entry)
        services.replicas.announce_appends()
        yield None
    return (yield from produce.respond_in_steps())


class _Entry:
    """One partition's part of a request, and its result; ``name`` is None if the topic's id is unknown."""

    __slots__ = ("attempt", "checked", "data", "error", "is_allowed", "name", "partition", "partition_response")

    def __init__(
        self,
        name: str | None,
        is_allowed: bool,
        data: PartitionProduceData,
        partition_response: PartitionProduceResponse,
    ) -> None:
        self.name = name
        self.is_allowed = is_allowed
        self.data = data
        self.partition_response = partition_response
        self.partition: Partition | None = None
        self.checked: CheckedBatch | None = None
        self.error: KafkaError | None = None
        self.attempt: AppendAttempt | None = None


class _Produce:
    """A request in progress."""

    __slots__ = ("_context", "_request", "_response", "_waiting")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._response = ProduceResponse()
        self._waiting: _Waiting = []

    def entries(self) -> Iterator[_Entry]:
        """Yield the request's partitions, each with its part of the response."""
        context = self._context
        has_ids = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        for topic in self._request.topic_data:
            name = context.services.metadata.topic_name(topic.topic_id) if has_ids else topic.name
            is_allowed = name is None or context.may_on_topic(Operation.WRITE, name)
            partition_responses: list[PartitionProduceResponse] = []
            self._response.responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partition_responses)
            )
            for data in topic.partition_data:
                partition_response = PartitionProduceResponse(index=data.index)
                partition_responses.append(partition_response)
                yield _Entry(name, is_allowed, data, partition_response)

    def admit(self, entry: _Entry) -> tuple[Partition, memoryview]:
        """Return the partition for a batch, and the unchecked batch.

        Raises:
            KafkaError: the batch may not be appended.
        """
        if entry.name is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not entry.is_allowed:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        acks = self._request.acks
        if not -1 <= acks <= 1:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        records = entry.data.records
        assert records is None or isinstance(records, memoryview), "requests are decoded from one buffer"
        _check_shape(records, self._context.api_version)
        assert records is not None
        if self._request.transactional_id is None and is_transactional(records):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        partition = self._context.services.replicas.get(entry.name, entry.data.index)
        partition.require_appendable(acks)
        return partition, records

    def verify_transaction(self, each_entry: Iterable[_Entry]) -> Steps[Iterator[_Entry]]:
        """Have the coordinator confirm the transaction's partitions; set the errors of batches without."""
        context, services = self._context, self._context.services
        transactional_id, version = self._request.transactional_id, context.api_version
        assert transactional_id is not None, "other requests have no transaction"
        is_allowed = context.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        is_verified = services.config.transaction_partition_verification_enable
        entries: list[_Entry] = []
        attempts: list[AppendAttempt] = []
        producer_ids: set[ProducerId] = set()
        for entry in each_entry:
            attempt = self._admit_to_transaction(entry, is_allowed=is_allowed)
            if attempt is not None and is_verified:
                entry.attempt = attempt
                attempts.append(attempt)
                producer_ids.add(attempt.producer.producer_id)
            entries.append(entry)
            yield None
        if len(producer_ids) > 1:
            for attempt in attempts:
                attempt.error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        elif attempts:
            yield verify_attempts(
                attempts,
                transactional_id=transactional_id,
                adds_partitions=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
                knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
                verifier=services.transaction_verifier,
                clock=services.clock,
            )
        for entry in entries:
            if entry.attempt is not None:
                entry.error = to_produce_error(entry.attempt.error, version)
            yield None
        return _pop_each(entries)

    def _admit_to_transaction(self, entry: _Entry, *, is_allowed: bool) -> AppendAttempt | None:
        """Return the attempt to append a transactional batch; set the entry's error if it is not admitted."""
        try:
            partition, records = self.admit(entry)
            if not is_transactional(records):
                return None
            if not is_allowed:
                raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return AppendAttempt(partition.log, read_producer(records))
        except KafkaError as error:
            entry.error = error
            return None

    def append(self, entry: _Entry) -> None:
        """Append a checked batch; set its part of the response, also for an error."""
        context, name, partition_response = self._context, entry.name, entry.partition_response
        replicas = context.services.replicas
        try:
            if entry.error is not None:
                raise entry.error
            self._append(entry)
        except RecordValidationError as error:
            _set_error(partition_response, error)
            partition_response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=wrong.batch_index, batch_index_error_message=wrong.message)
                for wrong in error.record_errors
            ]
        except KafkaError as error:
            _set_error(partition_response, error)
            if error is not entry.error and error.code in _ERRORS_WITH_LOG_START and entry.partition is not None:
                partition_response.log_start_offset = entry.partition.log.log_start_offset
            has_moved = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            if has_moved and name is not None and context.api_version >= _FIRST_VERSION_WITH_CURRENT_LEADER:
                endpoints = self._response.node_endpoints
                add_moved_leader(context, partition_response.current_leader, endpoints, name, entry.data.index)
        # Names of unknown topics have no counters: clients could invent any number of them.
        if partition_response.error_code and name is not None and context.services.metadata.topic(name) is not None:
            replicas.traffic_of(name).failed_produce_requests += 1

    def _append(self, entry: _Entry) -> None:
        partition, checked, partition_response = entry.partition, entry.checked, entry.partition_response
        assert partition is not None, "it has been admitted"
        assert checked is not None, "it has been checked"
        assert entry.name is not None, "it has been admitted"
        replicas, acks = self._context.services.replicas, self._request.acks
        result = replicas.append(
            partition,
            checked,
            origin=AppendOrigin.CLIENT,
            required_acks=acks,
            requires_verification=entry.attempt is not None,
            guard=None if entry.attempt is None else entry.attempt.guard,
        )
        partition_response.base_offset = result.first_offset
        partition_response.log_append_time_ms = result.log_append_time_ms
        partition_response.log_start_offset = result.log_start_offset
        traffic = replicas.traffic_of(entry.name)
        traffic.produce_requests += 1
        traffic.messages_in += result.last_offset - result.first_offset + 1
        traffic.bytes_in += len(entry.data.records or b"")
        if acks == 0:
            return
        if partition.is_acknowledgeable(result.last_offset, acks):
            partition_response.error_code = partition.acknowledgement_error(acks)
        else:
            self._waiting.append((partition, result.last_offset, partition_response))

    def respond(self) -> HandlerResult:
        """Return the response, or a delayed one that waits for the commits."""
        if self._request.acks == 0:
            return _respond_without_acks(self._response)
        return self._wait_for(self._waiting) if self._waiting else self._response

    def respond_in_steps(self) -> Steps[HandlerResult]:
        """Return the result of `respond`; partitions wait in groups, so that no event has to check all of them."""
        if len(self._waiting) <= _PARTITIONS_AT_ONCE:
            return self.respond()
        parts: list[Delayed[Message]] = []
        for start in range(0, len(self._waiting), _PARTITIONS_AT_ONCE):
            parts.append(self._wait_for(self._waiting[start : start + _PARTITIONS_AT_ONCE]))
            yield None
        completed: Delayed[Message] = Delayed()
        when_all(parts).on_complete(lambda _: completed.complete(self._response))
        if not completed.is_complete:
            completed.on_abandon = lambda: _abandon(parts)
        return completed

    def _wait_for(self, waiting: _Waiting) -> Delayed[Message]:
        response, acks = self._response, self._request.acks
        return self._context.services.replicas.produce_purgatory.watch(
            [partition.topic_partition for partition, _, _ in waiting],
            deadline_ms=self._context.received_at_ms + self._request.timeout_ms,
            try_complete=lambda: response if _complete_acknowledgeable(waiting, acks) else None,
            on_deadline=lambda: _time_out(response, waiting),
        )


def _pop_each(entries: list[_Entry]) -> Iterator[_Entry]:
    """Yield the entries in order; freeing all of them at once would take longer than a slice."""
    entries.reverse()
    while entries:
        yield entries.pop()


def _check_shape(records: memoryview | None, version: int) -> None:
    """Reject anything but whole batches of magic 2, in Kafka's order and with its codes.

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


def _set_error(partition_response: PartitionProduceResponse, error: KafkaError) -> None:
    partition_response.error_code = error.code
    partition_response.error_message = error.message
    partition_response.base_offset = -1


def _abandon(parts: list[Delayed[Message]]) -> None:
    for part in parts:
        part.abandon()


def _complete_acknowledgeable(waiting: _Waiting, required_acks: int) -> bool:
    """Complete partitions that may be acknowledged or are no longer led; return whether none is waiting."""
    still = []
    for partition, last_offset, partition_response in waiting:
        if not partition.is_leader:
            _set_error(partition_response, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif partition.is_acknowledgeable(last_offset, required_acks):
            partition_response.error_code = partition.acknowledgement_error(required_acks)
        else:
            still.append((partition, last_offset, partition_response))
    waiting[:] = still
    return not still


def _time_out(response: ProduceResponse, waiting: _Waiting) -> ProduceResponse:
    for _, _, partition_response in waiting:
        _set_error(partition_response, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    return response


def _respond_without_acks(response: ProduceResponse) -> HandlerResult:
    """Close the connection on an error: with acks=0 only this makes the client request metadata."""
    for topic in response.responses:
        for partition_response in topic.partition_responses:
            if partition_response.error_code:
                code = ErrorCode(partition_response.error_code).name
                return CloseConnection(f"produced with acks=0 and failed with {code}")
    return None

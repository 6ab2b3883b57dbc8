"""A simulated producer: sends batches to the partitions of a topic at its own pace, and retries failed batches.

An idempotent one has several batches on their way per partition, numbered, and repeats them in order until they are
acknowledged; every other one tries a few times, which may duplicate. It reports every response to the state observer.
Source: Sender, RecordAccumulator and TransactionManager of Apache Kafka's client.
"""

from collections import deque
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost, Target
from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.types import Endpoint, Offset, Uuid
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records import Record, build_batch

IN_FLIGHT_MAX = 5
ATTEMPTS_MAX = 8
RETRY_BACKOFF_MS = 100
RECORDS_MAX = 3
UNSENT_MAX = 20
PRODUCE_TIMEOUT_MS = 2_000

_SEQUENCE_ERRORS = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


@dataclass(slots=True, eq=False)
class _Batch:
    """``values``: as they are reported; a record without one has b"" there."""

    keys: tuple[bytes | None, ...]
    values: tuple[bytes, ...]
    sequence: int
    attempts: int = 0


@dataclass(slots=True)
class _Line:
    """Batches of one partition; ``topic_id`` is that of the topic for which the sequence counts.

    ``acknowledged_to`` is the sequence behind the last that was acknowledged, ``acknowledged_at`` its batch's offset.
    """

    partition: int
    unsent: deque[_Batch] = field(default_factory=deque)
    in_flight: list[_Batch] = field(default_factory=list)
    failed: list[_Batch] = field(default_factory=list)
    next_sequence: int = 0
    not_before_ms: int = 0
    is_waiting: bool = False
    sent_to: Endpoint | None = None
    topic_id: Uuid | None = None
    acknowledged_to: int = 0
    acknowledged_at: Offset = -1

    @property
    def is_empty(self) -> bool:
        return not (self.unsent or self.in_flight or self.failed)


class Producer:
    """See the module.

    Args of the constructor:
        acks: -1, 0 or 1. An idempotent producer has -1.
        pace_ms: one batch each so long, on average.
        has_keys: whether each record has a key, of its own.
    """

    def __init__(
        self,
        host: ClientHost,
        state_observer: StateObserver,
        name: str,
        topic: str,
        *,
        acks: int,
        is_idempotent: bool,
        pace_ms: int,
        has_keys: bool = False,
    ) -> None:
        self.name = name
        self.topic = topic
        self.acknowledged_count = 0
        self._host = host
        self._state_observer = state_observer
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._pace_ms = pace_ms
        self._has_keys = has_keys
        self._lines: dict[int, _Line] = {}
        self._value_count = 0
        self._is_producing = True
        self._producer_id = -1
        self._producer_epoch = -1
        self._is_id_requested = False

    # --- start and end

    def start(self) -> None:
        self._create_batches()

    def finish(self) -> None:
        """Create no new batches; pending ones are still sent."""
        self._is_producing = False

    def abandon(self) -> None:
        """Drop pending batches as well: the topic is deleted."""
        self._is_producing = False
        self._lines.clear()
        self._host.remove_topic(self.topic)

    @property
    def is_done(self) -> bool:
        return all(line.is_empty for line in self._lines.values())

    def send_to_all(self) -> None:
        """Create one more batch for every partition."""
        for partition in range(self._host.partition_count(self.topic)):
            self._create_batch(partition)

    def _create_batches(self) -> None:
        if not self._is_producing:
            return
        count = self._host.partition_count(self.topic)
        if count == 0:
            self._host.refresh()
        else:
            self._create_batch(self._host.random.randrange(count))
        self._host.after(1 + self._host.random.randrange(2 * self._pace_ms), self._create_batches)

    def _create_batch(self, partition: int) -> None:
        line = self._lines.setdefault(partition, _Line(partition))
        if len(line.unsent) < UNSENT_MAX:
            count = 1 + self._host.random.randrange(RECORDS_MAX)
            records = [self._new_record(self._value_count + index) for index in range(count)]
            self._value_count += count
            line.unsent.append(_Batch(tuple(key for key, _ in records), tuple(value for _, value in records), -1))
        self._pump(line)

    def _new_record(self, number: int) -> tuple[bytes | None, bytes]:
        """Return key and value of a record."""
        kind = "once" if self._is_idempotent else "any"
        value = f"{kind}-{self.name}-{number}".encode()
        return (value if self._has_keys else None), value

    # --- sending

    def _pump(self, line: _Line) -> None:
        """Send the batches that may be sent now."""
        now_ms = self._host.cluster.clock.monotonic_ms()
        if line.failed and not line.in_flight:
            line.unsent.extendleft(reversed(sorted(line.failed, key=lambda batch: batch.sequence)))
            line.failed.clear()
        if not line.unsent or line.failed:
            return
        if now_ms < line.not_before_ms:
            self._pump_later(line, line.not_before_ms - now_ms)
            return
        if self._is_idempotent and self._producer_id < 0:
            self._request_producer_id()
            self._pump_later(line, RETRY_BACKOFF_MS)
            return
        limit = IN_FLIGHT_MAX if self._is_idempotent and line.unsent[0].attempts == 0 else 1
        while line.unsent and len(line.in_flight) < limit and not line.failed:
            target = self._host.target(self.topic, line.partition)
            if target is None:
                self._pump_later(line, RETRY_BACKOFF_MS)
                return
            if line.in_flight and (line.sent_to != target.endpoint or not line.acknowledged_to):
                # A leader without this producer's state would accept any sequence as the first: that of a later batch,
                # when the connection is established only after the first one has timed out (seed 700000221).
                return
            self._send(line, line.unsent.popleft(), target)

    def _pump_later(self, line: _Line, delay_ms: int) -> None:
        if line.is_waiting:
            return
        line.is_waiting = True

        def again() -> None:
            line.is_waiting = False
            if self._lines.get(line.partition) is line:
                self._pump(line)

        self._host.after(delay_ms, again)

    def _send(self, line: _Line, batch: _Batch, target: Target) -> None:
        if line.topic_id is None:
            line.topic_id = target.key.topic_id
        if self._is_idempotent and batch.sequence < 0:
            batch.sequence = line.next_sequence
            line.next_sequence += len(batch.values)
        batch.attempts += 1
        line.in_flight.append(batch)
        line.sent_to = target.endpoint
        data = PartitionProduceData(index=line.partition, records=self._encode(batch))
        topic = TopicProduceData(name=self.topic, topic_id=target.key.topic_id, partition_data=[data])
        request = ProduceRequest(acks=self._acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])
        self._host.ask(
            target.endpoint,
            request,
            f"{self.name}-{self._acks}",
            lambda response: self._on_response(line, batch, target, response),
        )

    def _encode(self, batch: _Batch) -> bytes:
        now_ms = self._host.cluster.clock.wall_ms()
        records = [
            Record(index, now_ms, key, value or None)
            for index, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
        ]
        if not self._is_idempotent:
            return build_batch(records)
        return build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.sequence,
        )

    def _request_producer_id(self) -> None:
        if not self._is_id_requested:
            self._is_id_requested = True
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            self._host.ask(self._host.any_node(), request, "producer-id", self._on_producer_id)

    def _on_producer_id(self, response: PeerResult) -> None:
        self._is_id_requested = False
        if isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
            self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch

    # --- responses

    def _on_response(self, line: _Line, batch: _Batch, target: Target, response: PeerResult) -> None:
        key = target.key
        if self._lines.get(line.partition) is not line or batch not in line.in_flight:
            return
        is_first = not line.failed and line.in_flight[0] is batch
        line.in_flight.remove(batch)
        code, offset = _outcome(response)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._on_success(line, key, batch, offset)
        elif code in _SEQUENCE_ERRORS and is_first and self._leads(target):
            self._on_sequence_rejected(line, batch, key, code)
        elif self._is_idempotent or batch.attempts < ATTEMPTS_MAX:
            line.failed.append(batch)
            line.not_before_ms = self._host.cluster.clock.monotonic_ms() + RETRY_BACKOFF_MS
            self._host.refresh()
        self._pump(line)

    def _leads(self, target: Target) -> bool:
        """Return whether the node that responded leads: a deposed leader that does not know it yet lacks records."""
        topic = self._state_observer.image.topics.by_id.get(target.key.topic_id)
        leader = -1 if topic is None else topic.partitions[target.key.partition].leader
        place = self._host.cluster.nodes.get(leader)
        return topic is None or (place is not None and place.host == target.endpoint.host)

    def _on_success(self, line: _Line, key: PartitionKey, batch: _Batch, offset: Offset) -> None:
        self.acknowledged_count += len(batch.values)
        next_sequence = batch.sequence + len(batch.values)
        if next_sequence > line.acknowledged_to:
            line.acknowledged_to, line.acknowledged_at = next_sequence, offset
        if self._acks == -1 and offset >= 0:
            self._state_observer.acknowledged(key, offset, batch.values)

    def _on_sequence_rejected(self, line: _Line, batch: _Batch, key: PartitionKey, code: ErrorCode | None) -> None:
        """Start again with a new producer id, if the loss of the preceding batches is excused; drop what was sent.

        It is also excused where the batch before this one is deleted: a leader that rebuilds the producers' states from
        the log (UnifiedLog.rebuildProducerState) knows of none below the log start, takes a repeated batch for the
        producer's first, and then rejects every batch that does not follow that one.

        Raises:
            InvariantViolation: the loss is not excused.
        """
        ledger = self._state_observer.ledger.partition(key)
        is_deleted_below = batch.sequence == line.acknowledged_to and 0 <= line.acknowledged_at < ledger.deleted_to
        if not (ledger.is_excused or is_deleted_below or self._state_observer.is_deleted(key)):
            raise InvariantViolation(
                f"IdempotentProducersNeverDuplicate: {key} rejects sequence {batch.sequence} of {self.name}, which is "
                f"next: {code}"
            )
        # The sequences of the other partitions belong to the old producer id: every partition starts again with a new
        # one.
        for other in self._lines.values():
            other.in_flight.clear()
            other.failed.clear()
            other.unsent = deque(each for each in other.unsent if each.sequence < 0)
            other.next_sequence = other.acknowledged_to = 0
            other.acknowledged_at = -1
        self._producer_id = -1
        for other in self._lines.values():
            self._pump_later(other, RETRY_BACKOFF_MS)


def _outcome(response: PeerResult) -> tuple[ErrorCode | None, Offset]:
    """Return the partition's error code, None when there is no response; and the first record's offset."""
    if not isinstance(response, ProduceResponse):
        return None, -1
    if not response.responses:
        return ErrorCode.NONE, -1  # acks=0: the broker sends no response
    partition = response.responses[0].partition_responses[0]
    return ErrorCode(partition.error_code), partition.base_offset

"""The log of a coordinator, in memory."""

from collections.abc import Iterator

from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import ErrorCode, KafkaError
from ottla.log.producer_state import ProducerState, read_marker
from ottla.log.replay import replay_batch
from ottla.purgatory import Delayed
from ottla.types import TopicPartition
from ottla.wire.records import Record, RecordBatch, parse_batch, read_records


class MemoryCoordinatorLog:
    """`CoordinatorLog` in memory: commits at once, or, while ``is_held``, when the test calls `commit`."""

    def __init__(self) -> None:
        self.batches: dict[int, list[RecordBatch]] = {}
        self.is_held = False
        self.is_confirmed = True
        self.append_error = ErrorCode.NONE
        self.verification = Delayed.of(Verification())
        """The result of each verification."""
        self.verified: list[tuple[int, TransactionalProducer, int]] = []
        self.transaction_versions: list[int] = []
        self.guards: list[object | None] = []
        self._producers: dict[int, ProducerState] = {}
        self._held: list[Delayed[ErrorCode]] = []

    def append(
        self, partition: int, batch: bytes, *, transaction_version: int = 0, guard: object | None = None
    ) -> Delayed[ErrorCode]:
        if self.append_error is not ErrorCode.NONE:
            return Delayed.of(self.append_error)
        self.transaction_versions.append(transaction_version)
        self.guards.append(guard)
        parsed = parse_batch(bytearray(batch))
        parsed.check_crc()
        written = self.batches.setdefault(partition, [])
        parsed.patch(written[-1].next_offset if written else 0, 0)
        producers = self._producers.setdefault(partition, ProducerState(TopicPartition("log", partition), 1 << 40))
        try:
            self._check_producer(producers, parsed, transaction_version)
        except KafkaError as error:
            return Delayed.of(error.code)
        replay_batch(producers, parsed, None)
        written.append(parsed)
        if not self.is_held:
            return Delayed.of(ErrorCode.NONE)
        self._held.append(Delayed())
        return self._held[-1]

    @staticmethod
    def _check_producer(producers: ProducerState, batch: RecordBatch, transaction_version: int) -> None:
        marker = read_marker(batch) if batch.is_control else None
        if marker is None:
            producers.check_data(batch, offset=batch.base_offset, check_sequence=False)
        else:
            producers.check_marker(batch, marker, offset=batch.base_offset, transaction_version=transaction_version)

    def verify_transaction(
        self, partition: int, producer: TransactionalProducer, api_version: int
    ) -> Delayed[Verification]:
        self.verified.append((partition, producer, api_version))
        return self.verification

    def commit(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Raise the high watermark to the end, or fail everything above it."""
        held, self._held = self._held, []
        for appended in held:
            appended.complete(error)

    def is_leadership_confirmed(self, partition: int) -> bool:
        return self.is_confirmed

    def end_offset(self, partition: int) -> int:
        batches = self.batches.get(partition)
        return batches[-1].next_offset if batches else 0

    def delete_before(self, partition: int, offset: int) -> None:
        self.batches[partition] = [it for it in self.batches.get(partition, ()) if it.next_offset > offset]

    def read_again(self, partition: int) -> list[RecordBatch]:
        return list(self.batches.get(partition, []))

    def records(self) -> Iterator[Record]:
        for _, batches in sorted(self.batches.items()):
            for batch in batches:
                yield from read_records(batch, size_bytes_max=1 << 20)

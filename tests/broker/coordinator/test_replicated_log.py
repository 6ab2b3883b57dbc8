"""`ReplicatedCoordinatorLog`: the internal topic as the node's own replicas have it."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.coordinator.replicated_log import ReplicatedCoordinatorLog, batches_between
from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import CorruptRecordError, ErrorCode
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.verifications import VerificationGuard
from ottla.purgatory import Delayed
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk, SimulatedFile
from ottla.types import TopicPartition
from ottla.wire.records import Record, RecordBatch, build_batch

PARTITION = TopicPartition("__counters", 0)


class StubReplicas:
    """The replicas of a node: those in ``partitions``; ``without_log`` have no log yet."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Any] = {}
        self.without_log: set[TopicPartition] = set()
        self.appended: list[tuple[TopicPartition, bytes, int]] = []

    def find(self, topic: str, partition: int) -> Any:
        assert TopicPartition(topic, partition) not in self.without_log, "to look for it creates its log"
        return self.partitions.get(TopicPartition(topic, partition))

    def is_yet_to_be_created(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.without_log

    def append_committed(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> Delayed[ErrorCode]:
        self.appended.append((topic_partition, batch, transaction_version))
        return Delayed.of(ErrorCode.NONE)


@pytest.fixture
def partition_log() -> PartitionLog:
    """A log of ten batches with two records each, in segments of about three batches."""
    disk = SimulatedDisk()
    disk.make_directory("/data")
    log = PartitionLog.open(
        disk=disk,
        directory="/data/__counters-0",
        topic_partition=PARTITION,
        config=LogConfig(segment_bytes=500),
        clock=SimulatedClock(),
        recovery_point=0,
        log_start_offset=0,
        was_clean_shutdown=True,
        producer_id_expiration_ms=86_400_000,
    )
    for _ in range(10):
        records = [Record(offset, 0, b"a", bytes(30)) for offset in range(2)]
        log.append_as_leader(bytearray(build_batch(records)), leader_epoch=0, now_ms=0)
    return log


@pytest.fixture
def replicas() -> StubReplicas:
    return StubReplicas()


@pytest.fixture
def coordinator_log(replicas: StubReplicas) -> ReplicatedCoordinatorLog:
    return ReplicatedCoordinatorLog(PARTITION.topic, replicas)


def offsets(batches: Any) -> list[int]:
    return [batch.base_offset for batch in batches]


def test_append_goes_to_the_replicas_of_the_internal_topic(
    coordinator_log: ReplicatedCoordinatorLog, replicas: StubReplicas
) -> None:
    assert coordinator_log.append(0, b"batch").value is ErrorCode.NONE
    assert coordinator_log.append(0, b"marker", transaction_version=2).value is ErrorCode.NONE
    assert replicas.appended == [(PARTITION, b"batch", 0), (PARTITION, b"marker", 2)]


PRODUCER = TransactionalProducer("payments", 9, 3)


def test_transaction_is_verified_for_the_partition_of_the_internal_topic(replicas: StubReplicas) -> None:
    verification = Verification(ErrorCode.INVALID_TXN_STATE)
    requested: list[tuple[TopicPartition, TransactionalProducer, int]] = []

    def verify(*arguments: Any) -> Delayed[Verification]:
        requested.append(arguments)
        return Delayed.of(verification)

    log = ReplicatedCoordinatorLog(PARTITION.topic, replicas, lambda: verify)

    assert log.verify_transaction(0, PRODUCER, 5).value is verification
    assert requested == [(PARTITION, PRODUCER, 5)]


def test_transaction_is_not_verified_where_verification_is_disabled(coordinator_log: ReplicatedCoordinatorLog) -> None:
    assert coordinator_log.verify_transaction(0, PRODUCER, 5).value == Verification(ErrorCode.NONE, None)


def test_whole_log_is_read_at_an_election_and_after_a_lost_write(
    coordinator_log: ReplicatedCoordinatorLog, replicas: StubReplicas, partition_log: PartitionLog
) -> None:
    replicas.partitions[PARTITION] = SimpleNamespace(log=partition_log, is_leader=True)

    for batches in (coordinator_log.read_at_election(0), coordinator_log.read_again(0)):
        assert batches is not None
        assert offsets(batches) == list(range(0, 20, 2))


def test_batches_that_are_appended_later_are_not_loaded(
    coordinator_log: ReplicatedCoordinatorLog, replicas: StubReplicas, partition_log: PartitionLog
) -> None:
    """The coordinator itself writes them, and replays them as it does."""
    replicas.partitions[PARTITION] = SimpleNamespace(log=partition_log, is_leader=True)
    batches = coordinator_log.read_at_election(0)
    assert batches is not None
    first: RecordBatch = next(batches)

    partition_log.append_as_leader(bytearray(build_batch([Record(0, 1, b"a", b"")])), leader_epoch=0, now_ms=0)

    assert first.base_offset == 0
    assert offsets(batches)[-1] == 18


def test_log_that_is_yet_to_be_created_is_empty(
    coordinator_log: ReplicatedCoordinatorLog, replicas: StubReplicas
) -> None:
    replicas.without_log.add(PARTITION)

    batches = coordinator_log.read_at_election(0)

    assert batches is not None
    assert list(batches) == []


def test_failed_disk_has_nothing_to_load(coordinator_log: ReplicatedCoordinatorLog) -> None:
    assert coordinator_log.read_at_election(0) is None
    assert coordinator_log.read_again(0) is None


def test_follower_reads_nothing_again(
    coordinator_log: ReplicatedCoordinatorLog, replicas: StubReplicas, partition_log: PartitionLog
) -> None:
    replicas.partitions[PARTITION] = SimpleNamespace(log=partition_log, is_leader=False)

    assert coordinator_log.read_again(0) is None


@pytest.mark.parametrize(("start", "expected"), [(0, [0, 2, 4]), (2, [2, 4]), (3, [2, 4]), (6, [])])
def test_batches_between_two_offsets_are_whole(partition_log: PartitionLog, start: int, expected: list[int]) -> None:
    assert offsets(batches_between(partition_log, start, 6)) == expected


def corrupt_header(log: PartitionLog, base_offset: int, position: int, bit: int) -> None:
    """Flip a bit at ``position`` of the header of the batch at ``base_offset``, on the disk."""
    found = log.read(base_offset, size_bytes_max=1).records
    assert found is not None
    assert isinstance(found.file, SimulatedFile)
    (byte,) = found.file.pread(1, found.position + position)
    found.file.pwritev([bytes([byte ^ 1 << bit])], found.position + position)


LENGTH_OR_OFFSETS = [*range(12), 16, *range(23, 27)]


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("position", LENGTH_OR_OFFSETS)
def test_corrupt_length_or_offset_ends_the_read(partition_log: PartitionLog, position: int, bit: int) -> None:
    """The next batch is found by them: a read must neither repeat itself nor leave out batches in silence."""
    corrupt_header(partition_log, 8, position, bit)
    read: list[int] = []

    def read_all() -> None:
        for batch in batches_between(partition_log, 0, 20):
            batch.check_crc()
            read.append(batch.base_offset)

    with pytest.raises(CorruptRecordError):
        read_all()
    assert read[:4] == [0, 2, 4, 6]
    assert len(read) <= 5

"""Both internal topics stay small under a year of commits: real coordinators write, and the real cleaner cleans.

Transactions leave records of superseded states, markers, and tombstones of expired ids. Each of them has to go.
"""

from collections.abc import Callable

import pytest

from compacted_log import CompactedLog
from group_node import GroupNode
from ottla.coordinator.transactions import TransactionalProducer, TransactionEnd, Verification
from ottla.errors import ErrorCode, KafkaError
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendOrigin
from ottla.log.verifications import VerificationGuard
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.transactions.state import TransactionState
from ottla.types import CONSUMER_OFFSETS_TOPIC
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.records import Record, RecordBatch
from transaction_node import T0, TransactionNode

DAYS = 365
DAY_MS = 24 * 60 * 60 * 1000
PER_DAY = 10
INTERNAL = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=16 * 1024,
    min_cleanable_dirty_ratio=0.5,
    delete_retention_ms=DAY_MS,
    file_delete_delay_ms=60_000,
)


class CompactedTopic:
    """`CoordinatorLog` of one partition, with a cleaner."""

    def __init__(self, clock: Clock) -> None:
        self.compacted = CompactedLog(INTERNAL, clock=clock)
        self.written_bytes = self.largest_bytes = 0
        self._clock = clock

    @property
    def batches(self) -> dict[int, list[RecordBatch]]:
        return {0: self.compacted.batches()}

    def append(
        self, partition: int, batch: bytes, *, transaction_version: int = 0, guard: VerificationGuard | None = None
    ) -> Delayed[ErrorCode]:
        try:
            self.compacted.log.append_as_leader(
                bytearray(batch),
                leader_epoch=0,
                now_ms=self._clock.wall_ms(),
                origin=AppendOrigin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except KafkaError as error:
            return Delayed.of(error.code)
        self.written_bytes += len(batch)
        self.compacted.replicate()
        return Delayed.of(ErrorCode.NONE)

    def verify_transaction(
        self, partition: int, producer: TransactionalProducer, api_version: int
    ) -> Delayed[Verification]:
        return Delayed.of(Verification())

    def is_leadership_confirmed(self, partition: int) -> bool:
        return True

    def read_again(self, partition: int) -> list[RecordBatch]:
        return self.compacted.batches()

    def records(self) -> list[Record]:
        return self.compacted.records()

    def clean(self) -> None:
        self.compacted.clean()
        self.compacted.log.remove_deleted_files(self._clock.monotonic_ms())
        self.largest_bytes = max(self.largest_bytes, self.compacted.log.size_bytes)

    def check(self) -> None:
        """Check that little was kept of much, on few files."""
        assert self.compacted.failures == []
        assert self.written_bytes > 20 * INTERNAL.segment_bytes
        assert self.largest_bytes < 4 * INTERNAL.segment_bytes
        assert len(self.compacted.disk.paths()) < 40


def test_transaction_state_stays_small_under_a_year_of_transactions() -> None:
    node = TransactionNode()
    topic = CompactedTopic(node.clock)
    node.log = topic  # type: ignore[assignment]
    node.restart(1)
    producer = node.initialize().value
    for day in range(DAYS):
        for number in range(PER_DAY):
            added = node.add(T0, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
            assert added.value is ErrorCode.NONE
            producer = node.end(
                is_commit=number % 5 != 4, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
            ).value
            assert producer.error_code == ErrorCode.NONE
            for sent in node.peers.take():
                node.respond(sent)
            node.initialize(f"visitor-{day}-{number}")  # never seen again: it expires
        node.advance(DAY_MS)
        topic.clean()

    topic.check()
    expired, ids = node.written_states().count("tombstone"), node.coordinator.sample().ids
    assert PER_DAY < ids < 10 * PER_DAY, "visitors are kept for a week"
    assert expired < 10 * PER_DAY
    node.restart(2)
    assert node.state() is TransactionState.COMPLETE_ABORT
    assert node.coordinator.sample().ids == ids


def commit_plainly(node: GroupNode, offset: int) -> None:
    partition = OffsetCommitRequestPartition(committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    assert node.call(request, 8).value.topics[0].partitions[0].error_code == ErrorCode.NONE


def commit_in_transaction(node: GroupNode, offset: int) -> None:
    """Commit the offset; each other transaction is another producer's, and every fifth one aborts."""
    producer_id, epoch = 7 + offset % 2, offset % 32_000
    partition = TxnOffsetCommitRequestPartition(committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    assert node.call(request, 5).value.topics[0].partitions[0].error_code == ErrorCode.NONE
    end = TransactionEnd(producer_id, epoch + 1, coordinator_epoch=0, is_commit=offset % 5 != 4, transaction_version=2)
    assert node.groups.end_transaction(0, end).value is ErrorCode.NONE


@pytest.mark.parametrize(
    ("commit", "last"), [(commit_plainly, DAYS * PER_DAY - 1), (commit_in_transaction, DAYS * PER_DAY - 2)]
)
def test_consumer_offsets_stay_small_under_a_year_of_commits(
    commit: Callable[[GroupNode, int], None], last: int
) -> None:
    node = GroupNode(topics={CONSUMER_OFFSETS_TOPIC: 1, "t": 1})
    topic = CompactedTopic(node.clock)
    node.log = topic  # type: ignore[assignment]
    node.restart()
    for day in range(DAYS):
        for number in range(PER_DAY * day, PER_DAY * (day + 1)):
            commit(node, number)
        node.advance(DAY_MS)
        topic.clean()

    topic.check()
    assert node.offsets() == {("t", 0): last}
    node.restart()
    assert node.offsets() == {("t", 0): last}

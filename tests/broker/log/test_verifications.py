"""The first batch of a transaction needs the guard of its verification; a marker and the batch itself remove it."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.log.verifications import VerificationGuard
from ottla.wire.records import ControlRecordType, build_end_transaction_marker

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


class Producer:
    """Producer 1 at a log whose appends are verified."""

    def __init__(self, log: PartitionLog, make_batch: MakeBatch) -> None:
        self.log = log
        self._make_batch = make_batch

    def verify(
        self, *, sequence: int = 0, epoch: int = 0, supports_epoch_bump: bool = True
    ) -> VerificationGuard | None:
        return self.log.start_verification(
            1, producer_epoch=epoch, sequence=sequence, supports_epoch_bump=supports_epoch_bump
        )

    def append(
        self, guard: VerificationGuard | None = None, *, sequence: int = 0, epoch: int = 0, **said: Any
    ) -> ErrorCode:
        options = {"is_transactional": True, **said}
        origin = options.pop("origin", AppendOrigin.CLIENT)
        batch = self._make_batch(1, producer_id=1, producer_epoch=epoch, base_sequence=sequence, **options)
        try:
            self.log.append_as_leader(
                batch, leader_epoch=0, now_ms=NOW_MS, origin=origin, requires_verification=True, guard=guard
            )
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def end(self, *, epoch: int = 0, transaction_version: int = 0) -> None:
        marker = build_end_transaction_marker(
            ControlRecordType.COMMIT, producer_id=1, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=NOW_MS
        )
        self.log.append_as_leader(
            marker,
            leader_epoch=0,
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
            requires_verification=True,
        )


@pytest.fixture
def producer(open_log: OpenLog, make_batch: MakeBatch) -> Producer:
    return Producer(open_log(producer_id_expiration_ms=HOUR_MS), make_batch)


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_first_batch_of_a_transaction_needs_a_guard(producer: Producer, origin: AppendOrigin) -> None:
    assert producer.append(origin=origin) is ErrorCode.INVALID_TXN_STATE
    guard = producer.verify()

    assert producer.append(origin=origin) is ErrorCode.INVALID_TXN_STATE
    assert producer.append(guard, origin=origin) is ErrorCode.NONE


def test_later_batches_of_an_open_transaction_need_no_guard(producer: Producer) -> None:
    producer.append(producer.verify())

    assert producer.verify(sequence=1) is None
    assert producer.append(sequence=1) is ErrorCode.NONE


def test_batch_outside_of_a_transaction_needs_no_guard(producer: Producer) -> None:
    assert producer.append(is_transactional=False) is ErrorCode.NONE


def test_duplicate_of_an_ended_transaction_is_acknowledged_without_a_guard(producer: Producer) -> None:
    producer.append(producer.verify())
    producer.end()

    assert producer.append() is ErrorCode.NONE
    assert producer.log.log_end_offset == 2


def test_late_batch_of_an_ended_transaction_is_rejected(producer: Producer) -> None:
    """A marker that comes between verification and append removes the guard: nothing would end the transaction."""
    guard = producer.verify(supports_epoch_bump=False)
    producer.end()

    assert producer.append(guard) is ErrorCode.INVALID_TXN_STATE
    assert producer.append(producer.verify()) is ErrorCode.NONE


def test_late_batch_of_a_transaction_that_ended_with_the_next_epoch_is_fenced(producer: Producer) -> None:
    guard = producer.verify()
    producer.end(epoch=1, transaction_version=2)

    assert producer.append(guard) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_guard_of_an_earlier_attempt_is_rejected(producer: Producer) -> None:
    stale = producer.verify(supports_epoch_bump=False)
    producer.end()
    producer.verify(supports_epoch_bump=False)

    assert producer.append(stale) is ErrorCode.INVALID_TXN_STATE


def test_batches_that_wait_for_the_same_verification_share_its_guard(producer: Producer) -> None:
    first, second = producer.verify(sequence=0), producer.verify(sequence=1)

    assert first is second
    assert producer.append(first) is ErrorCode.NONE
    assert producer.append(second, sequence=1) is ErrorCode.NONE


@pytest.mark.parametrize("supports_epoch_bump", [True, False])
def test_batch_that_overtook_the_first_one_is_rejected(producer: Producer, supports_epoch_bump: bool) -> None:
    """An unknown producer may start with any sequence; a gap that the verification caused would not be noticed."""
    producer.verify(sequence=5, supports_epoch_bump=supports_epoch_bump)
    guard = producer.verify(sequence=3, supports_epoch_bump=supports_epoch_bump)

    assert producer.append(guard, sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    expected = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if supports_epoch_bump else ErrorCode.NONE
    assert producer.append(guard, sequence=3) is expected


def test_transaction_with_an_epoch_of_its_own_starts_with_sequence_zero(producer: Producer) -> None:
    producer.append(producer.verify())
    producer.end(epoch=1, transaction_version=2)

    assert producer.append(producer.verify(sequence=1, epoch=1), sequence=1, epoch=1) is (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert producer.append(producer.verify(epoch=1), epoch=1) is ErrorCode.NONE


def test_fenced_producer_cannot_start_a_verification(producer: Producer) -> None:
    producer.append(producer.verify(epoch=3), epoch=3)

    with pytest.raises(KafkaError) as raised:
        producer.verify(epoch=2)

    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_newer_epoch_takes_a_verification_over(producer: Producer) -> None:
    producer.verify(sequence=7, supports_epoch_bump=False)
    guard = producer.verify(sequence=9, epoch=1, supports_epoch_bump=False)

    assert producer.append(guard, sequence=9, epoch=1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("supports_epoch_bump", "error"),
    [
        pytest.param(True, ErrorCode.NONE, id="epoch-for-each-transaction"),
        pytest.param(False, ErrorCode.INVALID_TXN_STATE, id="one-epoch"),
    ],
)
def test_marker_of_the_transaction_before_leaves_the_verification_of_the_next(
    producer: Producer, supports_epoch_bump: bool, error: ErrorCode
) -> None:
    """It has the next transaction's epoch, and may come late: the producer does not wait for markers."""
    producer.append(producer.verify())
    guard = producer.verify(epoch=1, supports_epoch_bump=supports_epoch_bump)

    producer.end(epoch=1, transaction_version=2)

    assert producer.append(guard, epoch=1) is error


def test_verification_expires_with_its_producer(producer: Producer) -> None:
    guard = producer.verify()
    producer.log.expire_producers(NOW_MS + HOUR_MS)

    assert producer.append(guard) is ErrorCode.INVALID_TXN_STATE

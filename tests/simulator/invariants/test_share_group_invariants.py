"""Invariants of share groups: what may be delivered, how often, and what is still to be delivered."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey, PartitionLedger
from ottla.simulator.invariants.share_group_invariants import DELIVERY_COUNT_LIMIT, ShareGroupInvariants
from ottla.simulator.invariants.share_locks import LOCK_DURATION_MS
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import SHARE_GROUP_STATE_TOPIC, TopicIdPartition, Uuid
from ottla.wire.acknowledge_type import AcknowledgeType

WHERE = TopicIdPartition(Uuid(b"t" * 16), 0)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


@pytest.fixture
def ledger() -> PartitionLedger:
    ledger = PartitionLedger(PartitionKey("t", *WHERE))
    ledger.values = [b"%d" % number for number in range(4)]
    return ledger


@pytest.fixture
def state_ledger() -> PartitionLedger:
    return PartitionLedger(PartitionKey(SHARE_GROUP_STATE_TOPIC, Uuid(b"s" * 16), 0))


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def invariants(clock: SimulatedClock, ledger: PartitionLedger, state_ledger: PartitionLedger) -> ShareGroupInvariants:
    ledgers = SimpleNamespace(partitions=lambda: [ledger, state_ledger], find=lambda topic_id, partition: ledger)
    observer: Any = SimpleNamespace(ledger=ledgers)
    return ShareGroupInvariants(observer, clock)


def acquire(invariants: ShareGroupInvariants, *offsets: int, count: int = 1, sent_ms: int = 0) -> None:
    invariants.on_acquired("g", WHERE, offsets, delivery_count=count, sent_ms=sent_ms)


def test_record_that_was_finished_before_the_request_is_a_violation(
    invariants: ShareGroupInvariants, clock: SimulatedClock
) -> None:
    acquire(invariants, 0)
    clock.advance(10)
    invariants.on_acknowledged("g", WHERE, {0: ACCEPT}, acquired_ms=clock.monotonic_ms())
    now_ms = clock.monotonic_ms()

    acquire(invariants, 0, count=2, sent_ms=now_ms - 1)
    with pytest.raises(InvariantViolation, match="FinishedRecordsAreNotDelivered"):
        acquire(invariants, 0, count=2, sent_ms=now_ms)


def test_released_record_is_delivered_again(invariants: ShareGroupInvariants, clock: SimulatedClock) -> None:
    acquire(invariants, 0)
    invariants.on_acknowledged("g", WHERE, {0: RELEASE}, acquired_ms=0)
    clock.advance(10)

    acquire(invariants, 0, count=2, sent_ms=clock.monotonic_ms())

    assert 0 in invariants.unfinished("g", WHERE)


@pytest.mark.parametrize("count", [0, DELIVERY_COUNT_LIMIT + 1])
def test_impossible_delivery_count_is_a_violation(invariants: ShareGroupInvariants, count: int) -> None:
    with pytest.raises(InvariantViolation, match="DeliveredWithinTheLimit"):
        acquire(invariants, 0, count=count)


def test_lost_share_state_excuses_everything(invariants: ShareGroupInvariants, state_ledger: PartitionLedger) -> None:
    acquire(invariants, 0)
    invariants.on_acknowledged("g", WHERE, {0: ACCEPT}, acquired_ms=0)
    state_ledger.is_excused = True

    acquire(invariants, 0, count=99, sent_ms=1_000)
    assert invariants.unfinished("g", WHERE) == []


def test_records_are_unfinished_until_they_are_decided_or_tried_often_enough(
    invariants: ShareGroupInvariants, ledger: PartitionLedger
) -> None:
    assert invariants.unfinished("g", WHERE) == [0, 1, 2, 3]
    acquire(invariants, 0, 1, 2)
    acquire(invariants, 3, count=DELIVERY_COUNT_LIMIT)
    invariants.on_acknowledged("g", WHERE, {0: ACCEPT, 1: RELEASE}, acquired_ms=0)
    assert invariants.unfinished("g", WHERE) == [1, 2]

    invariants.on_acknowledgements_sent("g", WHERE, {2: ACCEPT})
    assert invariants.unfinished("g", WHERE) == [1]
    acquire(invariants, 2, count=2)
    assert invariants.unfinished("g", WHERE) == [1, 2]

    ledger.deleted_to = 2
    assert invariants.unfinished("g", WHERE) == [2]


def test_late_confirmation_does_not_count(invariants: ShareGroupInvariants, clock: SimulatedClock) -> None:
    acquire(invariants, 0)
    invariants.on_acknowledgements_sent("g", WHERE, {0: ACCEPT})
    clock.advance(LOCK_DURATION_MS)
    invariants.on_acknowledged("g", WHERE, {0: ACCEPT}, acquired_ms=0)

    acquire(invariants, 0, count=2, sent_ms=clock.monotonic_ms())

    assert 0 in invariants.unfinished("g", WHERE)


def test_deliveries_may_be_in_lost_responses(invariants: ShareGroupInvariants) -> None:
    acquire(invariants, 0, 1, count=3)
    invariants.on_response_lost("g", WHERE)
    assert invariants.unfinished("g", WHERE) == [0, 1, 2, 3]

    invariants.on_response_lost("g", WHERE)

    assert invariants.unfinished("g", WHERE) == [2, 3]

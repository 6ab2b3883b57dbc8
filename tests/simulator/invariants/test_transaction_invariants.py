"""Invariants of transactions: what they accept, and what they report."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.invariants.transaction_invariants import Ending, TransactionInvariants
from ottla.types import TRANSACTION_STATE_TOPIC, Uuid


@pytest.fixture
def invariants() -> TransactionInvariants:
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    return TransactionInvariants(state_observer, "t")


@pytest.mark.parametrize(
    ("ending", "read", "is_kept"),
    [
        (Ending.COMMITTED, (0, 1), True),
        (Ending.COMMITTED, (0,), False),
        (Ending.COMMITTED, (), False),
        (Ending.ABORTED, (), True),
        (Ending.ABORTED, (1,), False),
        (Ending.UNKNOWN, (), True),
        (Ending.UNKNOWN, (0, 1), True),
        (Ending.UNKNOWN, (1,), False),
    ],
    ids=str,
)
def test_all_of_a_transaction_is_read_or_nothing(
    invariants: TransactionInvariants, ending: Ending, read: tuple[int, ...], is_kept: bool
) -> None:
    invariants.begin("a", {0: b"a0", 1: b"a1"}).ending = ending
    for partition in read:
        invariants.on_read(partition, b"a%d" % partition)

    if is_kept:
        invariants.check_all_or_nothing()
    else:
        with pytest.raises(InvariantViolation, match="AllOrNothing"):
            invariants.check_all_or_nothing()


def test_record_is_read_once(invariants: TransactionInvariants) -> None:
    invariants.on_read(0, b"a")

    with pytest.raises(InvariantViolation, match="CommittedOnce"):
        invariants.on_read(0, b"a")


def test_batch_of_a_fenced_producer_is_not_acknowledged(invariants: TransactionInvariants) -> None:
    invariants.on_fenced_append(b"late")
    invariants.on_appended(b"in time")

    with pytest.raises(InvariantViolation, match="NoAppendOfFencedProducers"):
        invariants.on_appended(b"late")


def test_lost_decisions_excuse_everything(invariants: TransactionInvariants) -> None:
    ledger = invariants.state_observer.ledger
    ledger.partition(PartitionKey(TRANSACTION_STATE_TOPIC, Uuid(bytes(16)), 0)).is_excused = True
    invariants.begin("a", {0: b"a0"}).ending = Ending.COMMITTED

    invariants.check_all_or_nothing()

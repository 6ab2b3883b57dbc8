"""Invariants of read-process-write transactions: each violation is detected, and what Kafka allows is not."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.copy_invariants import COPIES_OF_EACH, Copy, CopyInvariants
from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.invariants.transaction_invariants import TransactionInvariants
from ottla.types import CONSUMER_OFFSETS_TOPIC, Uuid


@pytest.fixture
def invariants() -> CopyInvariants:
    state_observer: Any = SimpleNamespace(ledger=Ledger())
    return CopyInvariants(TransactionInvariants(state_observer, "t"), "copies")


def read_copies(invariants: CopyInvariants, *offsets: int, number: int = 0) -> None:
    for offset in offsets:
        copy = Copy(number, 0, offset, b"value:%d" % offset)
        assert Copy.decode(copy.encode()) == copy
        invariants.on_read(0, copy.encode())


@pytest.mark.parametrize("offsets", [(3, 3), (3, 2)], ids=["twice", "out of order"])
def test_record_is_copied_once_in_order(invariants: CopyInvariants, offsets: tuple[int, ...]) -> None:
    with pytest.raises(InvariantViolation, match="CopiedOnceInOrder"):
        read_copies(invariants, *offsets)


def test_stable_offset_is_not_below_a_visible_copy(invariants: CopyInvariants) -> None:
    before = invariants.required_offsets()
    invariants.on_commit_requested(0, 3)
    invariants.on_commit_requested(0, 4)
    read_copies(invariants, 3)

    invariants.on_fetched(0, 3, before)
    invariants.on_fetched(0, 4, invariants.required_offsets())
    with pytest.raises(InvariantViolation, match="below 4 was copied"):
        invariants.on_fetched(0, 3, invariants.required_offsets())


def test_stable_offset_is_not_below_an_acknowledged_commit(invariants: CopyInvariants) -> None:
    invariants.on_committed(0, 4)

    with pytest.raises(InvariantViolation, match="is -1, and all below 4"):
        invariants.on_fetched(0, -1, invariants.required_offsets())


def test_offset_of_an_aborted_transaction_is_never_committed(invariants: CopyInvariants) -> None:
    invariants.on_commit_requested(0, 4)

    with pytest.raises(InvariantViolation, match="never to be committed"):
        invariants.on_fetched(0, 5, invariants.required_offsets())


def test_every_committed_record_has_all_of_its_copies(invariants: CopyInvariants) -> None:
    invariants.inputs.on_read(0, b"value:3")
    for number in range(COPIES_OF_EACH):
        with pytest.raises(InvariantViolation, match=f"not copied by number {number}"):
            invariants.check_all_copied()
        read_copies(invariants, 3, number=number)
    invariants.check_all_copied()


def test_copy_of_a_record_that_was_not_committed_is_detected(invariants: CopyInvariants) -> None:
    read_copies(invariants, 3)

    with pytest.raises(InvariantViolation, match="not committed"):
        invariants.check_all_copied()


def test_lost_offsets_excuse_repeated_copies(invariants: CopyInvariants) -> None:
    ledger = invariants.inputs.state_observer.ledger
    ledger.partition(PartitionKey(CONSUMER_OFFSETS_TOPIC, Uuid(bytes(16)), 0)).is_excused = True

    read_copies(invariants, 3, 3)
    invariants.check_all_copied()

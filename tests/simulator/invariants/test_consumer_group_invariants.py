"""Invariants of consumer groups: who may be assigned a partition, and when."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.consumer_group_invariants import SESSION_TIMEOUT_MS, ConsumerGroupInvariants
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.world.clock import SimulatedClock


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def invariants(clock: SimulatedClock) -> ConsumerGroupInvariants:
    """Invariants of a group in which member a owns partition 0 since epoch 2."""
    observer: Any = SimpleNamespace(ledger=SimpleNamespace(partitions=lambda: []))
    invariants = ConsumerGroupInvariants(observer, clock)
    beat(invariants, "a", set())
    invariants.on_assigned("g", 2, 0, "a")
    beat(invariants, "a", {0})
    return invariants


def beat(invariants: ConsumerGroupInvariants, member_id: str, owned: set[int] | None) -> None:
    invariants.on_heartbeat_sent("g", member_id, owned)
    invariants.on_heartbeat_succeeded("g", member_id)


def test_second_owner_in_an_epoch_is_a_violation(invariants: ConsumerGroupInvariants) -> None:
    invariants.on_released("g", "a")

    with pytest.raises(InvariantViolation, match="OneOwnerPerEpoch"):
        invariants.on_assigned("g", 2, 0, "b")


def test_epochs_of_a_group_that_changes_its_protocol_may_start_again(clock: SimulatedClock) -> None:
    observer: Any = SimpleNamespace(ledger=SimpleNamespace(partitions=lambda: []))
    invariants = ConsumerGroupInvariants(observer, clock, has_epochs=False)
    invariants.on_assigned("g", 2, 0, "a")
    beat(invariants, "a", {0})
    invariants.on_released("g", "a")

    invariants.on_assigned("g", 2, 0, "b")

    beat(invariants, "b", {0})
    with pytest.raises(InvariantViolation, match="HandedOverAfterRevocation"):
        invariants.on_assigned("g", 3, 0, "c")


def test_owner_that_has_not_revoked_is_a_violation(invariants: ConsumerGroupInvariants) -> None:
    with pytest.raises(InvariantViolation, match="HandedOverAfterRevocation"):
        invariants.on_assigned("g", 3, 0, "b")


def test_revoked_partition_is_handed_over(invariants: ConsumerGroupInvariants) -> None:
    beat(invariants, "a", set())

    invariants.on_assigned("g", 3, 0, "b")

    with pytest.raises(InvariantViolation, match="while b owned it"):
        invariants.on_assigned("g", 4, 0, "a")


def test_heartbeat_that_lists_nothing_revokes_nothing(invariants: ConsumerGroupInvariants) -> None:
    beat(invariants, "a", None)

    with pytest.raises(InvariantViolation, match="HandedOverAfterRevocation"):
        invariants.on_assigned("g", 3, 0, "b")


def test_partition_of_a_session_that_is_over_is_handed_over(
    invariants: ConsumerGroupInvariants, clock: SimulatedClock
) -> None:
    clock.advance(SESSION_TIMEOUT_MS)

    invariants.on_assigned("g", 3, 0, "b")

    with pytest.raises(InvariantViolation, match="OneOwnerPerEpoch"):
        invariants.on_assigned("g", 3, 0, "c")


def test_heartbeat_that_failed_prolongs_no_session(invariants: ConsumerGroupInvariants, clock: SimulatedClock) -> None:
    clock.advance(SESSION_TIMEOUT_MS)
    invariants.on_heartbeat_sent("g", "a", {0})
    beat(invariants, "b", set())

    invariants.on_assigned("g", 3, 0, "b")

    with pytest.raises(InvariantViolation, match="HandedOverAfterRevocation"):
        invariants.on_assigned("g", 4, 0, "c")

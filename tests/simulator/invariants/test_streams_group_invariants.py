"""Invariants of streams groups: which member, in which process, may be assigned a task, and when."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey, PartitionLedger
from ottla.simulator.invariants.streams_group_invariants import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    StreamsGroupInvariants,
    TaskCopy,
    TaskRole,
)
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import CONSUMER_OFFSETS_TOPIC, Uuid

ACTIVE = TaskCopy(TaskRole.ACTIVE, "1", 0)
STANDBY = TaskCopy(TaskRole.STANDBY, "1", 0)
PROCESSES = {"a": "p", "b": "q", "c": "r", "thread-of-a": "p", "thread-of-b": "q"}


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def group_ledger() -> PartitionLedger:
    return PartitionLedger(PartitionKey(CONSUMER_OFFSETS_TOPIC, Uuid(b"o" * 16), 0))


@pytest.fixture
def invariants(clock: SimulatedClock, group_ledger: PartitionLedger) -> StreamsGroupInvariants:
    """Invariants of a group in which member a is active and member b standby for a task since epoch 2."""
    observer: Any = SimpleNamespace(ledger=SimpleNamespace(partitions=lambda: [group_ledger]))
    invariants = StreamsGroupInvariants(observer, clock)
    for member_id in PROCESSES:
        beat(invariants, member_id)
    for member_id, task in (("a", ACTIVE), ("b", STANDBY)):
        invariants.on_assigned(2, task, member_id)
        beat(invariants, member_id, task)
    return invariants


def beat(invariants: StreamsGroupInvariants, member_id: str, *owned: TaskCopy, lists: bool = True) -> None:
    invariants.on_heartbeat_sent(member_id, PROCESSES[member_id], owned if lists else None)
    invariants.on_heartbeat_succeeded(member_id)


def pass_time(invariants: StreamsGroupInvariants, clock: SimulatedClock, milliseconds: int) -> None:
    """Let time pass while all members send heartbeats."""
    for _ in range(10):
        clock.advance(milliseconds // 10)
        for member_id in PROCESSES:
            beat(invariants, member_id, lists=False)


@pytest.mark.parametrize("member_id", ["b", "c", "thread-of-a"])
def test_active_task_with_two_owners_is_a_violation(invariants: StreamsGroupInvariants, member_id: str) -> None:
    if member_id == "b":
        beat(invariants, "b")

    with pytest.raises(InvariantViolation, match="OneOwnerOfActiveTask"):
        invariants.on_assigned(3, ACTIVE, member_id)


@pytest.mark.parametrize(
    ("task", "member_id"),
    [
        pytest.param(STANDBY, "a", id="standby-of-the-active-member"),
        pytest.param(STANDBY, "thread-of-a", id="standby-of-another-member-in-the-active-process"),
        pytest.param(STANDBY, "thread-of-b", id="second-standby-in-a-process"),
    ],
)
def test_second_copy_in_a_process_is_a_violation(
    invariants: StreamsGroupInvariants, task: TaskCopy, member_id: str
) -> None:
    with pytest.raises(InvariantViolation, match="OneCopyPerProcess"):
        invariants.on_assigned(3, task, member_id)


@pytest.mark.parametrize("member_id", ["b", "thread-of-b"])
def test_standby_must_be_revoked_before_its_process_is_active(
    invariants: StreamsGroupInvariants, member_id: str
) -> None:
    beat(invariants, "a")

    with pytest.raises(InvariantViolation, match="OneCopyPerProcess"):
        invariants.on_assigned(3, ACTIVE, member_id)

    beat(invariants, "b")
    invariants.on_assigned(4, ACTIVE, member_id)


def test_standbys_in_several_processes_are_no_violation(invariants: StreamsGroupInvariants) -> None:
    beat(invariants, "a")

    invariants.on_assigned(3, STANDBY, "c")

    with pytest.raises(InvariantViolation, match="while c of process r owned standby task 1_0"):
        invariants.on_assigned(3, ACTIVE, "c")


def test_second_owner_in_an_epoch_is_a_violation(invariants: StreamsGroupInvariants) -> None:
    invariants.on_released("a")

    with pytest.raises(InvariantViolation, match="OneTaskOwnerPerEpoch"):
        invariants.on_assigned(2, ACTIVE, "c")


def test_revoked_task_is_handed_over(invariants: StreamsGroupInvariants) -> None:
    beat(invariants, "a")

    invariants.on_assigned(3, ACTIVE, "c")

    with pytest.raises(InvariantViolation, match="while c of process r owned"):
        invariants.on_assigned(4, ACTIVE, "a")


def test_heartbeat_that_lists_nothing_revokes_nothing(invariants: StreamsGroupInvariants) -> None:
    beat(invariants, "a", lists=False)

    with pytest.raises(InvariantViolation, match="OneOwnerOfActiveTask"):
        invariants.on_assigned(3, ACTIVE, "c")


@pytest.mark.parametrize(("silent_ms", "is_over"), [(SESSION_TIMEOUT_MS, True), (SESSION_TIMEOUT_MS - 200, False)])
def test_task_is_handed_over_when_the_session_is_over(
    invariants: StreamsGroupInvariants, clock: SimulatedClock, silent_ms: int, is_over: bool
) -> None:
    clock.advance(silent_ms)
    invariants.on_heartbeat_sent("a", "p", [ACTIVE])

    if is_over:
        invariants.on_assigned(3, ACTIVE, "c")
        return
    with pytest.raises(InvariantViolation, match="OneOwnerOfActiveTask"):
        invariants.on_assigned(3, ACTIVE, "c")


def test_member_that_was_removed_after_the_rebalance_timeout_owns_nothing(
    invariants: StreamsGroupInvariants, clock: SimulatedClock
) -> None:
    pass_time(invariants, clock, REBALANCE_TIMEOUT_MS)
    invariants.on_assigned(3, ACTIVE, "c")
    invariants.on_heartbeat_sent("a", "p", None)
    invariants.on_released("a")

    beat(invariants, "a")
    with pytest.raises(InvariantViolation, match="while c of process r owned"):
        invariants.on_assigned(4, ACTIVE, "a")


def test_member_that_is_not_removed_after_the_rebalance_timeout_still_owned_its_task(
    invariants: StreamsGroupInvariants, clock: SimulatedClock
) -> None:
    pass_time(invariants, clock, REBALANCE_TIMEOUT_MS)
    invariants.on_heartbeat_sent("a", "p", None)
    invariants.on_assigned(3, ACTIVE, "c")
    # This heartbeat may have been received before the member was removed.
    invariants.on_heartbeat_succeeded("a")

    with pytest.raises(InvariantViolation, match="OneOwnerOfActiveTask"):
        beat(invariants, "a")


def test_tasks_that_are_listed_again_keep_their_age(invariants: StreamsGroupInvariants, clock: SimulatedClock) -> None:
    pass_time(invariants, clock, REBALANCE_TIMEOUT_MS)
    beat(invariants, "a", ACTIVE)

    invariants.on_assigned(3, ACTIVE, "c")

    with pytest.raises(InvariantViolation, match=f"for {REBALANCE_TIMEOUT_MS} ms"):
        beat(invariants, "a", ACTIVE)


def test_lost_records_of_groups_excuse_everything(
    invariants: StreamsGroupInvariants, group_ledger: PartitionLedger
) -> None:
    group_ledger.is_excused = True

    invariants.on_assigned(2, ACTIVE, "c")
    invariants.on_assigned(2, STANDBY, "a")
    beat(invariants, "c", ACTIVE)

    group_ledger.is_excused = False
    with pytest.raises(InvariantViolation, match="OneOwnerOfActiveTask"):
        invariants.on_assigned(3, ACTIVE, "b")

"""The next step of one member of a streams group, from every state; and no task runs twice on any way there."""

import random
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import MemberState, MemberTasks, StreamsMember
from ottla.groups.streams.reconciliation import Reconciliation
from ottla.groups.streams.records import with_current_assignment
from ottla.groups.streams.tasks import NO_TASKS, TaskAssignment
from ottla.wire.messages.streams_group_log import StreamsGroupCurrentMemberAssignmentValue

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS


def tasks(text: str) -> dict[str, frozenset[int]]:
    """Return the tasks that ``text`` names: "0:1,2 1:0" are tasks 1 and 2 of subtopology 0, and task 0 of 1."""
    entries = (entry.split(":") for entry in text.split())
    return {subtopology_id: frozenset(map(int, numbers.split(","))) for subtopology_id, numbers in entries}


def target(active: str = "", standby: str = "", warmup: str = "") -> TaskAssignment:
    return TaskAssignment(tasks(active), tasks(standby), tasks(warmup))


def assigned(active: str = "", standby: str = "", epoch: int = 10) -> MemberTasks:
    """Return tasks of a member, the active ones assigned in ``epoch``."""
    return MemberTasks({each: dict.fromkeys(numbers, epoch) for each, numbers in tasks(active).items()}, tasks(standby))


def member(state: MemberState = STABLE, epoch: int = 10, process: str = "p", **said: Any) -> StreamsMember:
    return StreamsMember(
        member_id=f"m-{process}",
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=state,
        process_id=process,
        **said,
    )


def group_of(*members: StreamsMember) -> StreamsGroup:
    group = StreamsGroup("g")
    for each in members:
        group.put_member(each)
    return group


@pytest.mark.parametrize(
    ("before", "other", "wanted", "owned", "after"),
    [
        pytest.param(
            member(epoch=11, assigned=assigned("0:1")),
            assigned(),
            target("0:1"),
            None,
            (STABLE, 11, assigned("0:1"), assigned()),
            id="reconciled-member-stays",
        ),
        pytest.param(
            member(assigned=assigned("0:1")),
            assigned(),
            target("0:1,2"),
            None,
            (STABLE, 11, MemberTasks({"0": {1: 10, 2: 11}}), assigned()),
            id="free-task-is-added-with-the-new-epoch",
        ),
        pytest.param(
            member(assigned=assigned("0:1")),
            assigned("0:2"),
            target("0:1,2"),
            None,
            (UNRELEASED, 11, assigned("0:1"), assigned()),
            id="active-task-of-another-process-is-awaited",
        ),
        pytest.param(
            member(assigned=assigned()),
            assigned(standby="0:2"),
            target("0:2"),
            None,
            (STABLE, 11, assigned("0:2", epoch=11), assigned()),
            id="standby-of-another-process-does-not-matter",
        ),
        pytest.param(
            member(assigned=assigned()),
            assigned("0:2"),
            target(standby="0:2"),
            None,
            (STABLE, 11, assigned(standby="0:2"), assigned()),
            id="standby-beside-the-active-task-of-another-process",
        ),
        pytest.param(
            member(assigned=assigned("0:1,2")),
            assigned(),
            target("0:2,3"),
            None,
            (UNREVOKED, 10, assigned("0:2"), assigned("0:1")),
            id="revocation-comes-first-and-keeps-the-epoch",
        ),
        pytest.param(
            member(assigned=assigned("0:1", "1:0")),
            assigned(),
            target("0:1"),
            target("0:1", "1:0"),
            (UNREVOKED, 10, assigned("0:1"), assigned(standby="1:0")),
            id="standby-is-revoked-too",
        ),
        pytest.param(
            member(assigned=assigned("0:1,2")),
            assigned(),
            target("0:2,3"),
            target("0:2"),
            (STABLE, 11, MemberTasks({"0": {2: 10, 3: 11}}), assigned()),
            id="what-the-member-does-not-own-is-revoked-already",
        ),
        pytest.param(
            member(UNREVOKED, assigned=assigned("0:2"), pending_revocation=assigned("0:1")),
            assigned(),
            target("0:2"),
            None,
            (UNREVOKED, 10, assigned("0:2"), assigned("0:1")),
            id="heartbeat-without-owned-tasks-revokes-nothing",
        ),
        pytest.param(
            member(UNREVOKED, assigned=assigned("0:2"), pending_revocation=assigned("0:1")),
            assigned(),
            target("0:2"),
            target("0:1,2"),
            (UNREVOKED, 10, assigned("0:2"), assigned("0:1")),
            id="member-still-owns-what-it-is-to-revoke",
        ),
        pytest.param(
            member(UNREVOKED, assigned=assigned("0:2"), pending_revocation=assigned("0:1")),
            assigned("0:3"),
            target("0:2,3"),
            target("0:2"),
            (UNRELEASED, 11, assigned("0:2"), assigned()),
            id="revoked-and-others-own-some-of-the-target",
        ),
        pytest.param(
            member(UNREVOKED, assigned=assigned("0:2,4"), pending_revocation=assigned("0:1")),
            assigned(),
            target("0:2"),
            target("0:2,4"),
            (UNREVOKED, 11, assigned("0:2"), assigned("0:4")),
            id="newer-target-takes-more-away-in-the-next-epoch",
        ),
        pytest.param(
            member(assigned=assigned(standby="0:1")),
            assigned(),
            target("0:1"),
            target(standby="0:1"),
            (UNREVOKED, 10, assigned(), assigned(standby="0:1")),
            id="standby-is-revoked-before-the-task-becomes-active-in-the-process",
        ),
        pytest.param(
            member(UNREVOKED, assigned=assigned(), pending_revocation=assigned(standby="0:1")),
            assigned(),
            target("0:1"),
            NO_TASKS,
            (UNRELEASED, 11, assigned(), assigned()),
            id="task-becomes-active-when-the-revocation-is-recorded",
        ),
        pytest.param(
            member(UNRELEASED, epoch=11, assigned=assigned()),
            assigned(),
            target("0:1"),
            NO_TASKS,
            (STABLE, 11, assigned("0:1", epoch=11), assigned()),
            id="others-have-revoked",
        ),
    ],
)
def test_next_step(
    before: StreamsMember,
    other: MemberTasks,
    wanted: TaskAssignment,
    owned: TaskAssignment | None,
    after: tuple[Any, ...],
) -> None:
    group = group_of(before, member(process="q", assigned=other))

    step = Reconciliation(target_epoch=11, target=wanted, group=group, owned=owned).next_step(before)

    assert (step.state, step.member_epoch, step.assigned, step.pending_revocation) == after


def test_unknown_state_needs_a_member_without_tasks() -> None:
    before = member(MemberState.UNKNOWN)
    step = Reconciliation(target_epoch=11, target=target("0:1"), group=group_of(before), owned=target("0:1"))

    with pytest.raises(KafkaError) as raised:
        step.next_step(before)
    after = replace_owned(step, NO_TASKS).next_step(before)

    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert (after.state, after.member_epoch) == (STABLE, 11)


def replace_owned(step: Reconciliation, owned: TaskAssignment) -> Reconciliation:
    return replace(step, owned=owned)


@pytest.mark.parametrize("seed", range(20))
def test_no_task_runs_twice_while_targets_change(seed: int) -> None:
    source = random.Random(seed)
    processes = {f"m{number}": f"p{number // 2}" for number in range(6)}
    group = group_of(*(StreamsMember(member_id=each, process_id=process) for each, process in processes.items()))
    reported = dict.fromkeys(processes, NO_TASKS)
    epoch, targets = 0, dict.fromkeys(processes, NO_TASKS)
    for _ in range(300):
        if source.random() < 0.1:
            epoch, targets = epoch + 1, random_targets(source, processes)
        beat(group, source.choice(list(processes)), epoch, targets, reported)
        check(group, processes)
    for member_id in [*processes] * 6:
        beat(group, member_id, epoch, targets, reported)
    for member_id in processes:
        tasks_now = group.members[member_id].assigned
        assert {each: frozenset(epochs) for each, epochs in tasks_now.active.items()} == targets[member_id].active
        assert tasks_now.standby == targets[member_id].standby


def beat(
    group: StreamsGroup, member_id: str, epoch: int, targets: dict[str, TaskAssignment], reported: dict[str, Any]
) -> None:
    """Let a member send what it owned after the last response, and receive its tasks."""
    step = Reconciliation(target_epoch=epoch, target=targets[member_id], group=group, owned=reported[member_id])
    before = group.members[member_id]
    after = before if before.is_reconciled_to(epoch) else step.next_step(before)
    group.put_member(after)
    active = {each: frozenset(epochs) for each, epochs in after.assigned.active.items()}
    reported[member_id] = TaskAssignment(active, after.assigned.standby, {})


def random_targets(source: random.Random, processes: dict[str, str]) -> dict[str, TaskAssignment]:
    """Return targets in which each task is active once, and is in a process once."""
    active: dict[str, dict[str, frozenset[int]]] = {each: {} for each in processes}
    standby: dict[str, dict[str, frozenset[int]]] = {each: {} for each in processes}
    for subtopology_id in ("0", "1"):
        for number in range(4):
            owner, copier = source.sample(list(processes), 2)
            add(active[owner], subtopology_id, number)
            if processes[copier] != processes[owner]:
                add(standby[copier], subtopology_id, number)
    return {each: TaskAssignment(active[each], standby[each], {}) for each in processes}


def add(assignment: dict[str, frozenset[int]], subtopology_id: str, number: int) -> None:
    assignment[subtopology_id] = assignment.get(subtopology_id, frozenset()) | {number}


def check(group: StreamsGroup, processes: dict[str, str]) -> None:
    """Check that each task is active once, and in a process once, counting what is still to be revoked."""
    active: list[tuple[str, int]] = []
    copies: list[tuple[str, str, int]] = []
    for member_id, each in group.members.items():
        for owned in (each.assigned, each.pending_revocation):
            running = [(name, number) for name, epochs in owned.active.items() for number in epochs]
            standbys = [(name, number) for name, numbers in owned.standby.items() for number in numbers]
            active += running
            copies += [(processes[member_id], *task) for task in running + standbys]
    assert len(set(active)) == len(active)
    assert len(set(copies)) == len(copies)


def test_state_that_a_later_release_has_recorded_is_unknown() -> None:
    assert (
        with_current_assignment(member(), StreamsGroupCurrentMemberAssignmentValue(state=99)).state
        is MemberState.UNKNOWN
    )

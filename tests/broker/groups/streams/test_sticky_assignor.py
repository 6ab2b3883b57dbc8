"""`StickyTaskAssignor`: the assignments of Kafka, which are even, sticky, and never two copies on one process.

``kafka_tasks.jsonl`` is recorded from Kafka 4.3.1 (tests/interop/test_streams_assignor.py).
"""

import gc
import weakref
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.streams.assignors import sticky_assignor
from ottla.groups.streams.assignors.process_state import ProcessState
from ottla.groups.streams.assignors.sticky_assignor import StickyTaskAssignor
from ottla.groups.streams.assignors.types import (
    AssignmentMember,
    GroupSpec,
    SubtopologyTasks,
    TaskTopology,
    task_topology,
)
from ottla.groups.streams.tasks import NO_TASKS, TaskAssignment, Tasks
from ottla.groups.streams.topics.configure import configure_topology
from ottla.groups.streams.topology import topology_of_request
from ottla.purgatory.steps import run_to_end
from recorded_cases import recorded_params
from task_cases import Case, Result, assign
from topologies import internal_topic, subtopology, topology_message
from topology_cases import cluster_topics

RECORDED = recorded_params(Path(__file__).with_name("kafka_tasks.jsonl"))


@pytest.mark.parametrize(("case", "kafka"), RECORDED)
def test_tasks_are_assigned_as_by_kafka(case: Case, kafka: Result) -> None:
    assert assign(case) == kafka


def topology(*task_counts: int, is_stateful: bool = True) -> TaskTopology:
    return TaskTopology(
        tuple(SubtopologyTasks(str(number), count, is_stateful) for number, count in enumerate(task_counts))
    )


def assigned(
    processes: Mapping[str, str],
    tasks: TaskTopology,
    *,
    standby_replicas: int = 0,
    last: Mapping[str, TaskAssignment] | None = None,
) -> dict[str, TaskAssignment]:
    """Assign ``tasks`` to members with these processes, which had the tasks ``last``."""
    members = {}
    for member_id, process_id in processes.items():
        had = (last or {}).get(member_id, NO_TASKS)
        members[member_id] = AssignmentMember(None, None, had.active, had.standby, {}, process_id, {})
    return run_to_end(StickyTaskAssignor().assign(GroupSpec(members, standby_replicas), tasks))


def tasks_of(tasks: Tasks) -> set[tuple[str, int]]:
    return {(subtopology_id, partition) for subtopology_id, each in tasks.items() for partition in each}


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, str], TaskTopology, int]:
    processes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=12))
    counts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    members = {f"m{number}": f"p{process}" for number, process in enumerate(processes)}
    return members, topology(*counts), draw(st.integers(0, 3))


@given(groups())
def test_every_task_is_active_once_and_never_twice_on_a_process(
    group: tuple[dict[str, str], TaskTopology, int],
) -> None:
    processes, tasks, standby_replicas = group

    target = assigned(processes, tasks, standby_replicas=standby_replicas)

    every = {(each.subtopology_id, partition) for each in tasks.subtopologies for partition in range(each.task_count)}
    active = Counter(task for each in target.values() for task in tasks_of(each.active))
    assert active == Counter(every)
    copies = Counter(task for each in target.values() for task in tasks_of(each.standby))
    most = min(standby_replicas, len(set(processes.values())) - 1)
    assert copies == Counter(dict.fromkeys(every, most) if most else {})
    on_processes = Counter(
        (processes[member_id], task)
        for member_id, each in target.items()
        for task in (*tasks_of(each.active), *tasks_of(each.standby))
    )
    assert set(on_processes.values()) <= {1}
    assert target.keys() == processes.keys()
    assert all(each.warmup == {} for each in target.values())


@given(groups())
def test_active_tasks_stay_while_nothing_changes(group: tuple[dict[str, str], TaskTopology, int]) -> None:
    processes, tasks, _ = group
    last = assigned(dict.fromkeys(processes, "one process"), tasks)

    assert assigned(dict.fromkeys(processes, "one process"), tasks, last=last) == last


def test_standby_becomes_active_when_the_active_member_leaves() -> None:
    processes = {"a": "p1", "b": "p2"}
    last = assigned(processes, topology(4), standby_replicas=1)
    assert (tasks_of(last["a"].active), tasks_of(last["a"].standby)) == (
        tasks_of(last["b"].standby),
        tasks_of(last["b"].active),
    )

    after = assigned({"b": "p2", "c": "p3"}, topology(4), standby_replicas=1, last=last)

    # One of the two that the member had on standby goes to the new one: the member's quota is two.
    assert tasks_of(after["b"].active) == tasks_of(last["b"].active)
    assert tasks_of(after["c"].active) == tasks_of(last["a"].active)


def test_new_member_gets_its_share_and_the_others_keep_theirs() -> None:
    last = assigned({"a": "p1", "b": "p2"}, topology(6))

    after = assigned({"a": "p1", "b": "p2", "c": "p3"}, topology(6), last=last)

    assert [len(tasks_of(after[member].active)) for member in "abc"] == [2, 2, 2]
    assert all(tasks_of(after[member].active) <= tasks_of(last[member].active) for member in "ab")


def test_tasks_without_state_have_no_standby() -> None:
    target = assigned({"a": "p1", "b": "p2"}, topology(4, is_stateful=False), standby_replicas=1)

    assert all(each.standby == {} for each in target.values())


def test_member_without_tasks_has_none_in_the_result() -> None:
    target = assigned({"a": "p1", "b": "p2"}, topology(1))

    assert NO_TASKS in target.values()
    assert all(each for assignment in target.values() for each in assignment.active.values())


def test_group_without_members_has_no_target() -> None:
    assert assigned({}, topology(3)) == {}


def test_group_without_tasks_has_members_without_tasks() -> None:
    assert assigned({"a": "p1"}, topology()) == {"a": NO_TASKS}


def test_tasks_that_are_gone_do_not_count() -> None:
    last = {"a": TaskAssignment({"gone": frozenset({0}), "0": frozenset({7})}, {"gone": frozenset({1})}, {})}

    assert assigned({"a": "p1"}, topology(2), last=last) == {"a": TaskAssignment({"0": frozenset({0, 1})}, {}, {})}


def test_topology_of_tasks_has_the_subtopologies_with_state() -> None:
    message = topology_message(
        subtopology("b", sources=["in"], changelogs=[internal_topic("c")]), subtopology("a", sources=["in"])
    )
    ready = run_to_end(configure_topology(topology_of_request(message), 0, cluster_topics({"in": 3, "c": 3})))
    missing = run_to_end(configure_topology(topology_of_request(message), 0, cluster_topics({})))

    assert task_topology(ready) == TaskTopology((SubtopologyTasks("a", 3, False), SubtopologyTasks("b", 3, True)))
    assert task_topology(missing) == TaskTopology(())


def test_large_group_is_assigned_in_small_steps() -> None:
    members = {f"m{number}": AssignmentMember(None, None, {}, {}, {}, f"p{number % 50}", {}) for number in range(200)}
    steps = StickyTaskAssignor().assign(GroupSpec(members, 1), topology(*[100] * 20))

    count = sum(1 for _ in steps)

    # Some 30 tasks are given to the least loaded process in a step, and each task is given twice.
    assert count > 2 * 2_000 // 34


def test_nothing_of_an_assignment_is_left_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[weakref.ref[ProcessState]] = []

    class Noted(ProcessState):
        __slots__ = ("__weakref__",)

        def __init__(self) -> None:
            super().__init__()
            created.append(weakref.ref(self))

    monkeypatch.setattr(sticky_assignor, "ProcessState", Noted)
    gc.disable()
    try:
        assigned({f"m{number}": f"p{number // 3}" for number in range(9)}, topology(20), standby_replicas=1)
        assert [each() for each in created] == [None] * 3
    finally:
        gc.enable()

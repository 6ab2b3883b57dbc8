"""Streams groups to assign tasks to, as lines of JSON: random ones that change in steps, and their specifications.

A line is ``{"replicas", "subtopologies": [[id, tasks, is stateful]], "members": [[id, process id, active, standby]]}``,
with tasks as ``{subtopology id: partitions}``. A result is a list of active and standby tasks, in the order of members.
"""

import random
from collections.abc import Iterator
from typing import Any

from ottla.groups.streams.assignors.sticky_assignor import StickyTaskAssignor
from ottla.groups.streams.assignors.types import AssignmentMember, GroupSpec, SubtopologyTasks, TaskTopology
from ottla.groups.streams.tasks import TaskAssignment, Tasks
from ottla.java_strings import string_order
from ottla.purgatory.steps import run_to_end
from ottla.types import Uuid, format_uuid

Case = dict[str, Any]
Result = list[list[dict[str, list[int]]]]


def topology_of(case: Case) -> TaskTopology:
    subtopologies = sorted(case["subtopologies"], key=lambda each: string_order(each[0]))
    return TaskTopology(tuple(SubtopologyTasks(*each) for each in subtopologies))


def spec_of(case: Case) -> GroupSpec:
    return GroupSpec(
        members={
            member_id: AssignmentMember(
                instance_id=None,
                rack_id=None,
                active=_tasks(active),
                standby=_tasks(standby),
                warmup={},
                process_id=process_id,
                client_tags={},
            )
            for member_id, process_id, active, standby in case["members"]
        },
        standby_replicas=case["replicas"],
    )


def _tasks(partitions: dict[str, list[int]]) -> Tasks:
    return {subtopology_id: frozenset(each) for subtopology_id, each in partitions.items()}


def result_of(case: Case, target: dict[str, TaskAssignment]) -> Result:
    assignments = [target[member_id] for member_id, *_ in case["members"]]
    return [[_sorted(each.active), _sorted(each.standby)] for each in assignments]


def _sorted(tasks: Tasks) -> dict[str, list[int]]:
    return {subtopology_id: sorted(tasks[subtopology_id]) for subtopology_id in sorted(tasks)}


def assign(case: Case) -> Result:
    return result_of(case, run_to_end(StickyTaskAssignor().assign(spec_of(case), topology_of(case))))


class ChangingStreamsGroup:
    """A streams group whose members and processes come and go, and whose source topics grow."""

    def __init__(self, source: random.Random, *, members_max: int, subtopologies_max: int, tasks_max: int) -> None:
        self._source = source
        self._members_max = members_max
        self._replicas = source.choice([0, 0, 1, 1, 2, 3])
        self._tasks_max = tasks_max
        self._subtopologies = [
            [str(number), source.randint(1, tasks_max), source.random() < 0.7]
            for number in range(source.randint(1, subtopologies_max))
        ]
        self._members: list[list[Any]] = []
        self._processes: list[str] = []
        for _ in range(source.randint(1, members_max)):
            self._join()

    def steps(self, count: int) -> Iterator[Case]:
        """Yield the group before each of ``count`` assignments; the result becomes its assignment."""
        for _ in range(count):
            case = {
                "replicas": self._replicas,
                "subtopologies": [list(each) for each in self._subtopologies],
                "members": [list(member) for member in self._members],
            }
            yield case
            for member, tasks in zip(self._members, assign(case), strict=True):
                member[2:] = tasks
            self._source.choice([self._change, self._change_several, lambda: None])()

    def _join(self) -> None:
        source = self._source
        if not self._processes or source.random() < 0.4:
            self._processes.append(format_uuid(Uuid(source.randbytes(16))))
        # A JVM's client sends a random id; others may send any string.
        member_id = format_uuid(Uuid(source.randbytes(16))) if source.random() < 0.8 else f"é{source.random()}"
        self._members.insert(source.randint(0, len(self._members)), [member_id, source.choice(self._processes), {}, {}])

    def _change(self) -> None:
        self._source.choice(
            [self._join_some, self._leave, self._leave, self._end_process, self._grow, self._scatter, self._replicate]
        )()

    def _change_several(self) -> None:
        for _ in range(self._source.randint(1, 4)):
            self._change()

    def _join_some(self) -> None:
        for _ in range(self._source.randint(1, max(1, self._members_max // 3))):
            self._join()

    def _leave(self) -> None:
        if len(self._members) > 1:
            del self._members[self._source.randrange(len(self._members))]

    def _end_process(self) -> None:
        process_id = self._source.choice(self._members)[1]
        rest = [member for member in self._members if member[1] != process_id]
        if rest:
            self._members = rest
            self._processes.remove(process_id)

    def _grow(self) -> None:
        self._source.choice(self._subtopologies)[1] += self._source.randint(1, 5)

    def _replicate(self) -> None:
        self._replicas = self._source.choice([0, 1, 2, 3])

    def _scatter(self) -> None:
        """Give most tasks at random to some of the members, also such that do not exist, as no assignor does."""
        source = self._source
        some = source.sample(self._members, source.randint(1, len(self._members)))
        for member in self._members:
            member[2:] = [{}, {}]
        for subtopology_id, count, _ in [*self._subtopologies, ["gone", 3, True]]:
            for partition in range(count + 2):
                if source.random() < 0.8:
                    source.choice(some)[2].setdefault(subtopology_id, []).append(partition)
                for member in source.sample(some, min(len(some), source.randrange(4))):
                    if partition not in member[2].get(subtopology_id, []):
                        member[3].setdefault(subtopology_id, []).append(partition)

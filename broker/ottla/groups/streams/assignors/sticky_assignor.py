"""`StickyTaskAssignor`: tasks stay where they are, or where their state is, as far as the load stays even.

A task stays with its active member, else goes to a member that has its standby, while that member is below its quota.
The rest goes to the least loaded process, and there to the member with the fewest tasks. Standby tasks follow with the
same three rules, on processes that do not have the task yet. Quotas are the average over the members that are not full.

Source: StickyTaskAssignor of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.groups.streams.assignors.java_priority_queue import JavaPriorityQueue
from ottla.groups.streams.assignors.process_state import MemberState, ProcessState
from ottla.groups.streams.assignors.types import GroupSpec, TaskTopology
from ottla.groups.streams.tasks import NO_TASKS, TaskAssignment, Tasks
from ottla.java_hashes import buckets_of_grown, buckets_of_sized, string_hash
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps, clear_in_steps, sorted_in_steps

_WORK_PER_STEP: Final = 1_000
"""Some 0.2 us each: a task that is listed, or a process that is put into a queue."""
_WORK_OF_A_KEPT_TASK: Final = 8
_WORK_OF_A_POLL: Final = 30
_WORK_OF_A_RESULT: Final = 3
_WORK_OF_A_MEMBER: Final = 10


class StickyTaskAssignor:
    """Computes target assignments of streams groups."""

    name: Final = "sticky"

    def assign(self, spec: GroupSpec, topology: TaskTopology) -> Steps[dict[str, TaskAssignment]]:
        """Return the new target assignment of every member, computed in slices as `Steps` are.

        Every task is active on one member, if there is any. A task with state has up to ``spec.standby_replicas``
        standby tasks, fewer where there are not so many other processes.
        """
        if not spec.members:
            return {}
        group = _Group(topology, spec.standby_replicas, len(spec.members))
        yield from group.add_members(spec)
        yield from group.assign_active()
        if spec.standby_replicas > 0:
            yield from group.assign_standby()
        target = yield from group.target()
        yield from group.release()
        return target


class _Quota:
    """The most tasks of a member by the sticky rules: the average over the members that have not reached it yet."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.maximum = 0
        self._update()

    def on_task_added(self, count: int) -> None:
        """Note that a member has ``count`` tasks now."""
        if count == self.maximum:
            self._members -= 1
            self._tasks -= count
            self._update()

    def _update(self) -> None:
        # Rounded up. It is 0 or less once all tasks are accounted for, so that no member is below it.
        self.maximum = -(-self._tasks // self._members) if self._members else 0


class _Group:
    """One assignment under way. Tasks are numbers: by subtopology, as they are sorted, then by partition."""

    def __init__(self, topology: TaskTopology, standby_replicas: int, members: int) -> None:
        self._topology = topology
        self._replicas = standby_replicas
        self._first_tasks: dict[str, int] = {}
        self._subtopologies: list[int] = []
        for position, each in enumerate(topology.subtopologies):
            self._first_tasks[each.subtopology_id] = len(self._subtopologies)
            self._subtopologies += [position] * each.task_count
        tasks = len(self._subtopologies)
        stateful = sum(each.task_count for each in topology.subtopologies if each.is_stateful)
        self._active_quota = _Quota(tasks, members)
        self._quota = _Quota(tasks + stateful * standby_replicas, members)
        self._members: list[MemberState] = []
        self._processes: Sequence[ProcessState] = ()
        self._last_active: dict[int, MemberState] = {}
        self._last_standby: dict[int, list[MemberState]] = {}
        self._work = 0

    def _is_step_done(self, work: int) -> bool:
        """Add to the work of this step; return whether the caller has to yield."""
        self._work += work
        if self._work < _WORK_PER_STEP:
            return False
        self._work = 0
        return True

    # Members

    def add_members(self, spec: GroupSpec) -> Steps[None]:
        """Note the members, their processes and their tasks, in Kafka's order."""
        yield None
        member_ids = yield from in_hash_order(list(spec.members), string_hash, buckets_of_grown(len(spec.members)))
        processes: dict[str, ProcessState] = {}
        for member_id in member_ids:
            member = spec.members[member_id]
            process = processes.get(member.process_id)
            if process is None:
                process = processes[member.process_id] = ProcessState()
            state = MemberState(member_id, process)
            process.members.append(state)
            self._members.append(state)
            for task in self._known_tasks(member.active):
                # In Kafka, too, the last one counts of members with the same task.
                self._last_active[task] = state
                if self._is_step_done(2):
                    yield None
            for task in self._known_tasks(member.standby):
                self._last_standby.setdefault(task, []).append(state)
                if self._is_step_done(2):
                    yield None
            if self._is_step_done(_WORK_OF_A_MEMBER):
                yield None
        buckets = buckets_of_sized(len(spec.members), len(processes))
        process_ids = yield from in_hash_order(list(processes), string_hash, buckets)
        self._processes = [processes[process_id] for process_id in process_ids]

    def _known_tasks(self, tasks: Tasks) -> Iterator[int]:
        for subtopology_id, partitions in tasks.items():
            first = self._first_tasks.get(subtopology_id)
            if first is not None:
                count = self._topology.subtopologies[self._subtopologies[first]].task_count
                yield from (first + partition for partition in partitions if partition < count)

    # Tasks

    def _by_partition(self, *, only_stateful: bool) -> Steps[list[int]]:
        """Return tasks in the order of their partitions, then of their subtopologies."""
        subtopologies = [each for each in self._topology.subtopologies if each.is_stateful or not only_stateful]
        ends = {each.task_count for each in subtopologies}
        tasks: list[int] = []
        for partition in range(max(ends, default=0)):
            if partition in ends:
                subtopologies = [each for each in subtopologies if each.task_count > partition]
            for each in subtopologies:
                tasks.append(self._first_tasks[each.subtopology_id] + partition)
                if self._is_step_done(1):
                    yield None
        return tasks

    def assign_active(self) -> Steps[None]:
        """Assign all active tasks."""
        tasks = yield from self._by_partition(only_stateful=False)
        tasks = yield from self._keep_active(tasks, self._last_active.get)
        tasks = yield from self._keep_active(tasks, self._last_standby_with_least_load)
        tasks = yield from sorted_in_steps(tasks)
        by_load = yield from self._processes_by_load()
        for task in tasks:
            process = by_load.poll()
            if not process.is_ordered:
                yield from process.order_members()
            count = process.add_task_to_least_loaded(task, is_active=True)
            self._active_quota.on_task_added(count)
            self._quota.on_task_added(count)
            by_load.add(process.load, process)
            if self._is_step_done(_WORK_OF_A_POLL):
                yield None

    def _keep_active(self, tasks: list[int], last_member: Callable[[int], MemberState | None]) -> Steps[list[int]]:
        """Assign each task to the member that had it, if that is below its quota; return the others."""
        rest: list[int] = []
        for task in tasks:
            member = last_member(task)
            if member is not None and member.task_count < self._active_quota.maximum:
                count = member.process.add_task(member, task, is_active=True)
                self._active_quota.on_task_added(count)
                self._quota.on_task_added(count)
            else:
                rest.append(task)
            if self._is_step_done(_WORK_OF_A_KEPT_TASK):
                yield None
        return rest

    def _last_standby_with_least_load(self, task: int) -> MemberState | None:
        members = self._last_standby.get(task)
        return None if members is None else _with_least_load(members)

    def assign_standby(self) -> Steps[None]:
        """Assign standby tasks, after the active ones."""
        tasks = yield from self._by_partition(only_stateful=True)
        rest: list[tuple[int, int]] = []
        for task in reversed(tasks):
            kept = 0
            while kept < self._replicas and self._keep_standby(task):
                kept += 1
            if kept < self._replicas:
                rest.append((task, self._replicas - kept))
            if self._is_step_done(_WORK_OF_A_KEPT_TASK * (1 + kept)):
                yield None
        rest = yield from sorted_in_steps(rest)
        by_load = yield from self._processes_by_load()
        while rest:
            task, replicas = rest.pop()
            for _ in range(replicas):
                if not (yield from self._add_standby_to_least_loaded(task, by_load)):
                    break

    def _keep_standby(self, task: int) -> bool:
        """Assign a standby task to a member that had the task; return whether there is one below its quota."""
        member = self._last_active.get(task)
        if member is None or task in member.process.tasks or member.task_count >= self._quota.maximum:
            members = self._last_standby.get(task)
            member = None if members is None else _with_least_load_without(task, members)
            if member is None or member.task_count >= self._quota.maximum:
                return False
        self._quota.on_task_added(member.process.add_task(member, task, is_active=False))
        return True

    def _add_standby_to_least_loaded(self, task: int, by_load: JavaPriorityQueue[ProcessState]) -> Steps[bool]:
        """Assign a standby task to the least loaded process without the task; return whether there is one."""
        polled: list[ProcessState] = []
        found = False
        while len(by_load) and not found:
            process = by_load.poll()
            polled.append(process)
            if task not in process.tasks:
                if not process.is_ordered:
                    yield from process.order_members()
                self._quota.on_task_added(process.add_task_to_least_loaded(task, is_active=False))
                found = True
            if self._is_step_done(_WORK_OF_A_POLL):
                yield None
        for process in reversed(polled):
            by_load.add(process.load, process)
        return found

    def _processes_by_load(self) -> Steps[JavaPriorityQueue[ProcessState]]:
        by_load: JavaPriorityQueue[ProcessState] = JavaPriorityQueue()
        for process in self._processes:
            by_load.add(process.load, process)
            if self._is_step_done(1):
                yield None
        return by_load

    # Result

    def target(self) -> Steps[dict[str, TaskAssignment]]:
        """Return the tasks of all members."""
        target: dict[str, TaskAssignment] = {}
        for member in self._members:
            active = yield from self._as_tasks(member.active)
            standby = yield from self._as_tasks(member.standby)
            target[member.member_id] = TaskAssignment(active, standby, {}) if active or standby else NO_TASKS
            if self._is_step_done(_WORK_OF_A_MEMBER):
                yield None
        return target

    def _as_tasks(self, numbers: list[int]) -> Steps[Tasks]:
        partitions: dict[str, set[int]] = {}
        for task in numbers:
            subtopology_id = self._topology.subtopologies[self._subtopologies[task]].subtopology_id
            partitions.setdefault(subtopology_id, set()).add(task - self._first_tasks[subtopology_id])
            if self._is_step_done(_WORK_OF_A_RESULT):
                yield None
        return {subtopology_id: frozenset(each) for subtopology_id, each in partitions.items()}

    def release(self) -> Steps[None]:
        """Free what the assignment has needed: at once it would take up to 10 ms."""
        yield from clear_in_steps(self._last_active, _WORK_PER_STEP)
        yield from clear_in_steps(self._last_standby, _WORK_PER_STEP)
        for process in self._processes:
            work = 1 + len(process.tasks) // 16
            process.clear()
            if self._is_step_done(work):
                yield None
        while self._members:
            member = self._members.pop()
            member.active.clear()
            member.standby.clear()
            if self._is_step_done(_WORK_OF_A_MEMBER):
                yield None


def _with_least_load(members: list[MemberState]) -> MemberState:
    """Return the member to prefer among those that had a standby task: one whose process and which have less load."""
    best = members[0]
    for member in members:
        if member.process.load < best.process.load and member.task_count < best.task_count:
            best = member
    return best


def _with_least_load_without(task: int, members: list[MemberState]) -> MemberState | None:
    """Return the same, without members whose process has the task; None if the first member's process has it.

    The exception for the first member is Kafka's, which looks at no other one then.
    """
    if task in members[0].process.tasks:
        return None
    return _with_least_load([member for member in members if task not in member.process.tasks])

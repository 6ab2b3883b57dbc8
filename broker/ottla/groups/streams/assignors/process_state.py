"""Members and processes while tasks are assigned: their load decides which of them gets the next task.

Source: ProcessState of Apache Kafka 4.3.1.
"""

from collections.abc import Sequence
from typing import Final

from ottla.groups.streams.assignors.java_priority_queue import JavaPriorityQueue
from ottla.java_hashes import buckets_of_grown, string_hash
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps

_MEMBERS_PER_STEP: Final = 256


class MemberState:
    """The tasks that a member has been given so far, as numbers."""

    __slots__ = ("active", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: "ProcessState") -> None:
        self.member_id = member_id
        self.process = process
        self.active: list[int] = []
        self.standby: list[int] = []

    @property
    def task_count(self) -> int:
        return len(self.active) + len(self.standby)


class ProcessState:
    """The members of one process; a process has a task once at most, whether active or standby.

    Attributes:
        members: in the order in which they were added.
        tasks: of all members.
        load: tasks per member, 0 without any.
    """

    __slots__ = ("_by_load", "_in_hash_order", "load", "members", "tasks")

    def __init__(self) -> None:
        self.members: list[MemberState] = []
        self.tasks: set[int] = set()
        self.load = 0.0
        self._in_hash_order: Sequence[MemberState] = ()
        self._by_load: JavaPriorityQueue[MemberState] | None = None

    def add_task(self, member: MemberState, task: int, *, is_active: bool) -> int:
        """Give a task to a member of this process; return how many tasks the member has then."""
        self._by_load = None
        return self._add(member, task, is_active)

    def _add(self, member: MemberState, task: int, is_active: bool) -> int:
        self.tasks.add(task)
        (member.active if is_active else member.standby).append(task)
        self.load = len(self.tasks) / len(self.members)
        return member.task_count

    @property
    def is_ordered(self) -> bool:
        """Whether the member with the least load is known."""
        return self._by_load is not None or len(self.members) == 1

    def order_members(self) -> Steps[None]:
        """Order the members by load; needed after `add_task`. Kafka does so where it needs the order."""
        if not self._in_hash_order:
            self._in_hash_order = yield from in_hash_order(
                self.members, lambda member: string_hash(member.member_id), buckets_of_grown(len(self.members))
            )
        by_load: JavaPriorityQueue[MemberState] = JavaPriorityQueue()
        for number, member in enumerate(self._in_hash_order, 1):
            by_load.add(member.task_count, member)
            if number % _MEMBERS_PER_STEP == 0:
                yield None
        self._by_load = by_load

    def add_task_to_least_loaded(self, task: int, *, is_active: bool) -> int:
        """Give a task to the member with the fewest; return how many it has then. The members must be ordered."""
        if len(self.members) == 1:
            return self._add(self.members[0], task, is_active)
        by_load = self._by_load
        assert by_load is not None, "the members are not ordered"
        member = by_load.poll()
        count = self._add(member, task, is_active)
        by_load.add(count, member)
        return count

    def clear(self) -> None:
        """Remove tasks and members, which refer to the process in turn: such circles would wait for the collector."""
        self.tasks.clear()
        self.members.clear()
        self._in_hash_order = ()
        self._by_load = None

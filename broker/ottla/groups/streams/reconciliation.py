"""The next step of one member towards its target assignment.

The invariants of the protocol are here: a task is active in one process at a time, and a process has at most one copy
of it, whose state directory no two threads may share. So an active task is added to a member only when no process has
it as such and the member's own process has no copy; a standby or warm-up task only when the member's process has it in
no role. A member owns what it was assigned until its own heartbeat no longer lists it.

Source: CurrentAssignmentBuilder (package streams) of Apache Kafka 4.3; KIP-1071.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import EpochTasks, MemberState, MemberTasks, StreamsMember
from ottla.groups.streams.tasks import TaskAssignment, Tasks


@dataclass(frozen=True, slots=True)
class _Difference:
    """From the tasks of a member in one role to those of its target."""

    kept: Tasks
    revoked: Tasks
    added: Tasks
    has_unreleased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """All that the next step depends on, besides the member itself.

    Attributes:
        target_epoch: epoch of ``target``.
        target: the member's own target assignment.
        group: the processes that have each task.
        owned: the tasks that the member reports; None if the heartbeat does not list them.
    """

    target_epoch: int
    target: TaskAssignment
    group: StreamsGroup
    owned: TaskAssignment | None

    def next_step(self, member: StreamsMember) -> StreamsMember:
        """Return the member after this heartbeat; the same object when nothing changes.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH: the log holds a state of a later release.
        """
        match member.state:
            case MemberState.STABLE:
                is_new = member.member_epoch != self.target_epoch
                return self._next_assignment(member, member.member_epoch) if is_new else member
            case MemberState.UNREVOKED_TASKS:
                if self._still_owns(member.pending_revocation):
                    return member
                return self._next_assignment(member, member.member_epoch + 1)
            case MemberState.UNRELEASED_TASKS:
                return self._next_assignment(member, member.member_epoch)
            case MemberState.UNKNOWN:
                if self.owned is None or self.owned.active or self.owned.standby or self.owned.warmup:
                    raise KafkaError(
                        ErrorCode.FENCED_MEMBER_EPOCH,
                        "The streams group member is in a unknown state. The member must abandon all its tasks and "
                        "rejoin.",
                    )
                return self._next_assignment(member, self.target_epoch)

    def _still_owns(self, revoked: MemberTasks) -> bool:
        """Return whether the member owns a task of ``revoked``, or does not report what it owns."""
        owned = self.owned
        if owned is None:
            return True
        return (
            any(
                not partitions.keys().isdisjoint(owned.active.get(each, ()))
                for each, partitions in revoked.active.items()
            )
            or _overlap(revoked.standby, owned.standby)
            or _overlap(revoked.warmup, owned.warmup)
        )

    def _next_assignment(self, member: StreamsMember, member_epoch: int) -> StreamsMember:
        """Revoke what is not in the target; else add what is free of it, and take over the target's epoch."""
        group, process_id = self.group, member.process_id
        epochs = member.assigned.active
        active = _difference(
            {subtopology_id: frozenset(partitions) for subtopology_id, partitions in epochs.items()},
            self.target.active,
            lambda subtopology_id, partitions: (
                group.active_anywhere(subtopology_id, partitions)
                | group.with_copy(process_id, subtopology_id, partitions)
            ),
        )
        with_task = partial(group.with_task, process_id)
        standby = _difference(member.assigned.standby, self.target.standby, with_task)
        warmup = _difference(member.assigned.warmup, self.target.warmup, with_task)
        kept = MemberTasks(_with_epochs(active.kept, epochs), standby.kept, warmup.kept)
        revoked = MemberTasks(_with_epochs(active.revoked, epochs), standby.revoked, warmup.revoked)
        if not revoked.is_empty and self._still_owns(revoked):
            return member.moved_to(MemberState.UNREVOKED_TASKS, member_epoch, kept, revoked)
        assigned = MemberTasks(
            self._with_added(kept.active, active.added),
            _union(kept.standby, standby.added),
            _union(kept.warmup, warmup.added),
        )
        has_unreleased = active.has_unreleased or standby.has_unreleased or warmup.has_unreleased
        state = MemberState.UNRELEASED_TASKS if has_unreleased else MemberState.STABLE
        return member.moved_to(state, self.target_epoch, assigned)

    def _with_added(self, kept: EpochTasks, added: Tasks) -> EpochTasks:
        tasks = dict(kept)
        for subtopology_id, partitions in added.items():
            tasks[subtopology_id] = {
                **kept.get(subtopology_id, {}),
                **dict.fromkeys(sorted(partitions), self.target_epoch),
            }
        return tasks


def _difference(
    current: Tasks, target: Tasks, unreleased_of: Callable[[str, frozenset[int]], frozenset[int]]
) -> _Difference:
    """Compare the tasks of one role; ``unreleased_of`` returns those of a subtopology that must be waited for."""
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    added: dict[str, frozenset[int]] = {}
    has_unreleased = False
    for subtopology_id in target.keys() | current.keys():
        owned = current.get(subtopology_id, frozenset())
        wanted = target.get(subtopology_id, frozenset())
        missing = wanted - owned
        free = missing - unreleased_of(subtopology_id, missing)
        has_unreleased = has_unreleased or len(free) < len(missing)
        for partitions, tasks in ((owned & wanted, kept), (owned - wanted, revoked), (free, added)):
            if partitions:
                tasks[subtopology_id] = partitions
    return _Difference(kept, revoked, added, has_unreleased)


def _with_epochs(tasks: Tasks, epochs: EpochTasks) -> EpochTasks:
    return {
        subtopology_id: {
            partition: epoch for partition, epoch in epochs[subtopology_id].items() if partition in partitions
        }
        for subtopology_id, partitions in tasks.items()
    }


def _union(tasks: Tasks, added: Tasks) -> Tasks:
    return {each: tasks.get(each, frozenset()) | added.get(each, frozenset()) for each in tasks.keys() | added.keys()}


def _overlap(tasks: Tasks, others: Tasks) -> bool:
    return any(not partitions.isdisjoint(others.get(each, ())) for each, partitions in tasks.items())

"""`StreamsMember`: one member of a streams group, immutable, and the states of its reconciliation.

Source: StreamsGroupMember, TasksTupleWithEpochs, MemberState of Apache Kafka 4.3; KIP-1071.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, TypeAlias

from ottla.groups.streams.tasks import Tasks

NOT_SET: Final = -1

EpochTasks: TypeAlias = Mapping[str, Mapping[int, int]]
"""By subtopology id and partition: the group's epoch in which the task was assigned to the member."""


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the values are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    """It must revoke tasks before it may have the target's epoch."""
    UNRELEASED_TASKS = 3
    """It has the target's epoch and waits for tasks that other processes have not revoked yet."""
    UNKNOWN = 127
    """A state that a later release has written."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """Tasks of a member by their role; offsets are committed for the active ones, which have epochs."""

    active: EpochTasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_MEMBER_TASKS: Final = MemberTasks()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """One member.

    Attributes:
        member_epoch: the epoch that the member received last.
        previous_member_epoch: the one before, accepted once more because the response may have been lost.
        topology_epoch: of the topology that the member runs.
        process_id: of the process that it is a thread of; a task has at most one copy in a process.
        user_endpoint: host and port at which it serves interactive queries.
        client_tags: by key.
        assigned: tasks that it may run.
        pending_revocation: tasks that it has to revoke, and owns until then.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NOT_SET
    topology_epoch: int = NOT_SET
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: MemberTasks = NO_MEMBER_TASKS
    pending_revocation: MemberTasks = NO_MEMBER_TASKS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has exactly the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def assignment_epoch_of(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch in which an active task was assigned, also one that must be revoked; None if neither."""
        epoch = self.assigned.active.get(subtopology_id, {}).get(partition)
        if epoch is None:
            epoch = self.pending_revocation.active.get(subtopology_id, {}).get(partition)
        return epoch

    def moved_to(
        self,
        state: MemberState,
        member_epoch: int,
        assigned: MemberTasks,
        pending_revocation: MemberTasks = NO_MEMBER_TASKS,
    ) -> "StreamsMember":
        """Return the member in another state, with its epoch so far as the previous one."""
        return replace(
            self,
            state=state,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

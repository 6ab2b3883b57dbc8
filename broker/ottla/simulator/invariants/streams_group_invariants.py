"""Invariants of streams groups (KIP-1071): an active task has one owner, and a process has one copy of a task.

A member owns a task from the response that assigns it until the member sends a heartbeat that does not list it, leaves,
is fenced, or has sent no heartbeat that succeeded for a session. Within that time no other member may be assigned it as
an active task, and the member's process may not be assigned it a second time, in any role: its members share a state
directory.

A coordinator also removes a member that does not revoke a task within the rebalance timeout, and the member learns that
by its next heartbeat. Whether it was removed decides then: if that heartbeat succeeds, the member owned the task.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from ottla.ports import Clock
from ottla.simulator.invariants.group_invariants import may_groups_have_lost_records
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver

SESSION_TIMEOUT_MS = 6_000
"""``group.streams.session.timeout.ms`` of the nodes."""
REBALANCE_TIMEOUT_MS = 8_000
"""Of the members."""
CLOCK_ERROR_MS = 100
"""What a timeout may be shorter by the clocks of nodes, which drift by 0.2 %."""


class TaskRole(StrEnum):
    ACTIVE = "active"
    STANDBY = "standby"


class TaskCopy(NamedTuple):
    """A task in one of its roles."""

    role: TaskRole
    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.role} task {self.subtopology_id}_{self.partition}"

    def is_of_same_task(self, other: "TaskCopy") -> bool:
        return self[1:] == other[1:]


@dataclass(slots=True)
class _Member:
    """What one member owns, each task with the time since when; and what it sent last.

    Attributes:
        contested: violations if the member has not been removed; the first ``tested`` are older than its last
            heartbeat.
    """

    process_id: str
    owned: dict[TaskCopy, int] = field(default_factory=dict)
    sent_ms: int = 0
    succeeded_ms: int = 0
    contested: list[str] = field(default_factory=list)
    tested: int = 0


class StreamsGroupInvariants:
    """Called by the members of one group; raises `InvariantViolation`."""

    def __init__(self, state_observer: StateObserver, clock: Clock) -> None:
        self._state_observer = state_observer
        self._clock = clock
        self._members: dict[str, _Member] = {}
        self._owner_in_epoch: dict[tuple[TaskCopy, int], str] = {}

    def on_heartbeat_sent(self, member_id: str, process_id: str, owned: Collection[TaskCopy] | None) -> None:
        """A member sends a heartbeat that lists ``owned``: it has revoked everything else. None: it lists nothing."""
        now_ms = self._clock.monotonic_ms()
        member = self._members.setdefault(member_id, _Member(process_id))
        if owned is not None:
            member.owned = {copy: member.owned.get(copy, now_ms) for copy in sorted(owned)}
        member.sent_ms = now_ms
        member.tested = len(member.contested)

    def on_heartbeat_succeeded(self, member_id: str) -> None:
        """The heartbeat that a member sent last has succeeded: it is a member, and its session lasts from then on."""
        member = self._members[member_id]
        member.succeeded_ms = member.sent_ms
        if member.tested and not self._is_excused:
            raise InvariantViolation(member.contested[0])

    def on_released(self, member_id: str) -> None:
        """A member owns nothing any more: it was fenced, leaves or starts."""
        self._members.pop(member_id, None)

    def on_assigned(self, epoch: int, copy: TaskCopy, member_id: str) -> None:
        """A member that has sent a heartbeat is assigned a task that it did not own before."""
        member = self._members[member_id]
        if not self._is_excused:
            if copy.role is TaskRole.ACTIVE:
                self._check_epoch(epoch, copy, member_id)
            for other_id, other in self._members.items():
                for owned in other.owned:
                    if owned.is_of_same_task(copy) and (other_id, owned) != (member_id, copy):
                        self._check_conflict(epoch, copy, member_id, owned, other_id)
        member.owned.setdefault(copy, self._clock.monotonic_ms())

    def _check_epoch(self, epoch: int, copy: TaskCopy, member_id: str) -> None:
        first = self._owner_in_epoch.setdefault((copy, epoch), member_id)
        if first != member_id:
            raise InvariantViolation(
                f"OneTaskOwnerPerEpoch: {copy} was assigned to {first} and {member_id} in epoch {epoch}"
            )

    def _check_conflict(self, epoch: int, copy: TaskCopy, member_id: str, owned: TaskCopy, other_id: str) -> None:
        """Check an assignment against a task that ``other_id``, perhaps the same member, has not given up."""
        member, other = self._members[member_id], self._members[other_id]
        if owned.role is TaskRole.ACTIVE is copy.role:
            invariant = "OneOwnerOfActiveTask"
        elif member.process_id == other.process_id:
            invariant = "OneCopyPerProcess"
        else:
            return
        now_ms = self._clock.monotonic_ms()
        silent_ms, owned_ms = now_ms - other.succeeded_ms, now_ms - other.owned[owned]
        if silent_ms >= SESSION_TIMEOUT_MS - CLOCK_ERROR_MS:
            return
        violation = (
            f"{invariant}: {copy} was assigned to {member_id} of process {member.process_id} in epoch {epoch} while "
            f"{other_id} of process {other.process_id} owned {owned} for {owned_ms} ms, whose session began "
            f"{silent_ms} ms before"
        )
        if member is other or owned_ms < REBALANCE_TIMEOUT_MS - CLOCK_ERROR_MS:
            raise InvariantViolation(violation)
        other.contested.append(violation)

    @property
    def _is_excused(self) -> bool:
        return may_groups_have_lost_records(self._state_observer)

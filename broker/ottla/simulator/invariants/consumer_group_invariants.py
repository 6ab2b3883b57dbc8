"""Invariants of consumer groups (KIP-848): one owner of a partition at a time, handed over after it was revoked.

A member owns a partition from the response that assigns it until the member sends a heartbeat without it, leaves, or
has sent no heartbeat that succeeded for a session. Within that time no other member may be assigned it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.ports import Clock
from ottla.simulator.invariants.group_invariants import may_groups_have_lost_records
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver

SESSION_TIMEOUT_MS = 6_000
"""``group.consumer.session.timeout.ms`` of the nodes."""
CLOCK_ERROR_MS = 100
"""What a session of 6 s may be shorter by the clocks of nodes, which drift by 0.2 %."""


class _Partition(NamedTuple):
    group: str
    number: int


@dataclass(slots=True)
class _Member:
    """What one member owns, and the time at which it sent its last heartbeat that succeeded."""

    owned: set[int] = field(default_factory=set)
    sent_ms: int = 0
    succeeded_ms: int = 0


class ConsumerGroupInvariants:
    """Called by the members; raises `InvariantViolation`.

    ``has_epochs``: whether the group's epochs are only incremented; one that changes its protocol while it is empty
    starts again.
    """

    def __init__(self, state_observer: StateObserver, clock: Clock, *, has_epochs: bool = True) -> None:
        self._state_observer = state_observer
        self._clock = clock
        self._has_epochs = has_epochs
        self._members: dict[tuple[str, str], _Member] = {}
        self._owner_in_epoch: dict[tuple[_Partition, int], str] = {}

    def on_heartbeat_sent(self, group: str, member_id: str, owned: set[int] | None) -> None:
        """A member sends a heartbeat that lists ``owned``: it has revoked everything else. None: it lists nothing."""
        member = self._members.setdefault((group, member_id), _Member())
        if owned is not None:
            member.owned = set(owned)
        member.sent_ms = self._clock.monotonic_ms()

    def on_heartbeat_succeeded(self, group: str, member_id: str) -> None:
        """The heartbeat that a member sent last has succeeded: its session lasts from then on at least."""
        member = self._members[group, member_id]
        member.succeeded_ms = member.sent_ms

    def on_released(self, group: str, member_id: str) -> None:
        """A member owns nothing any more: it was fenced, leaves or starts."""
        self._members.pop((group, member_id), None)

    def on_assigned(self, group: str, epoch: int, number: int, member_id: str) -> None:
        """A member is assigned a partition that it did not own before."""
        if self._is_excused:
            return
        partition = _Partition(group, number)
        first = self._owner_in_epoch.setdefault((partition, epoch), member_id)
        if first != member_id and self._has_epochs:
            raise InvariantViolation(
                f"OneOwnerPerEpoch: partition {number} of {group} was assigned to {first} and {member_id} in epoch "
                f"{epoch}"
            )
        now_ms = self._clock.monotonic_ms()
        for (other_group, other_id), other in self._members.items():
            if other_group != group or other_id == member_id or number not in other.owned:
                continue
            silent_ms = now_ms - other.succeeded_ms
            if silent_ms < SESSION_TIMEOUT_MS - CLOCK_ERROR_MS:
                raise InvariantViolation(
                    f"HandedOverAfterRevocation: partition {number} of {group} was assigned to {member_id} in epoch "
                    f"{epoch} while {other_id} owned it, whose session began {silent_ms} ms ago"
                )
        self._members.setdefault((group, member_id), _Member()).owned.add(number)

    @property
    def _is_excused(self) -> bool:
        return may_groups_have_lost_records(self._state_observer)

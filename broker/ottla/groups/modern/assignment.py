"""When a group gets a new target assignment, and when that takes too long for one heartbeat.

Source: GroupMetadataManager.canComputeNextTargetAssignment of Apache Kafka 4.3; KIP-1263.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.groups.modern.topics import ClusterTopics
from ottla.ports import Clock

IN_PLACE_SIZE_MAX: Final = 200
"""Members and partitions of a group whose target is computed at once: in about a millisecond."""
TOPICS_PER_STEP: Final = 256
"""Entries of members' assignments; a member without any counts for one."""

AssignmentT = TypeVar("AssignmentT")


@dataclass(frozen=True, slots=True)
class Target(Generic[AssignmentT]):
    """A member's target assignment, and the epoch that it belongs to."""

    epoch: int
    assignment: AssignmentT


def is_due(clock: Clock, assigned_at_ms: int, interval_ms: int) -> bool:
    """Return whether the interval since the last assignment (wall clock) is over, or that is not known for sure."""
    age_ms = clock.wall_ms() - assigned_at_ms
    # The clock of a former coordinator may have been ahead by hours: no group waits for that.
    return assigned_at_ms == 0 or not 0 <= age_ms < interval_ms


def is_large(topics: ClusterTopics, members: int, names: Collection[str]) -> bool:
    """Return whether a group of ``members`` that subscribe to ``names`` is too large for a computation in place.

    Members and partitions count; names alone may be thousands.
    """
    if members + len(names) > IN_PLACE_SIZE_MAX:
        return True
    return members + sum(map(topics.partition_count_of, topics.ids_of(names))) > IN_PLACE_SIZE_MAX

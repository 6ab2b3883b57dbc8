"""The states of a consumer group and of its members, and their transitions; `docs/states.md` has the diagrams.

Source: ConsumerGroup.ConsumerGroupState, CurrentAssignmentBuilder of Apache Kafka 4.3; KIP-848.
"""

from enum import StrEnum
from typing import Final

from ottla.groups.consumer.member import MemberState


class ConsumerGroupState(StrEnum):
    """A state, with its name in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The target assignment is older than the group's epoch."""
    RECONCILING = "Reconciling"
    """A member does not have its target assignment yet."""
    STABLE = "Stable"
    DEAD = "Dead"


_LIVING: Final = (
    ConsumerGroupState.ASSIGNING,
    ConsumerGroupState.RECONCILING,
    ConsumerGroupState.STABLE,
)

GROUP_TRANSITIONS: Final[dict[tuple[ConsumerGroupState, ConsumerGroupState], str]] = (
    {
        (ConsumerGroupState.EMPTY, ConsumerGroupState.ASSIGNING): "a member joins",
        (ConsumerGroupState.ASSIGNING, ConsumerGroupState.RECONCILING): "a target assignment is computed",
        (ConsumerGroupState.RECONCILING, ConsumerGroupState.STABLE): "every member has its target assignment",
        (ConsumerGroupState.RECONCILING, ConsumerGroupState.ASSIGNING): "members, subscriptions or topics change",
        (ConsumerGroupState.STABLE, ConsumerGroupState.ASSIGNING): "members, subscriptions or topics change",
    }
    | {(state, ConsumerGroupState.EMPTY): "the last member leaves or fails" for state in _LIVING}
    | {(state, ConsumerGroupState.DEAD): "converted to a classic group" for state in _LIVING}
    | {(ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD): "deleted, or its last offset has expired"}
)
"""The event of each transition. A group computes its state from epochs and members; it has no variable for it."""

MEMBER_TRANSITIONS: Final[dict[tuple[MemberState, MemberState], str]] = {
    (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS): "the target takes partitions away",
    (MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS): "the target gives partitions that others own",
    (MemberState.UNREVOKED_PARTITIONS, MemberState.STABLE): "revoked; all of the target is free",
    (MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS): "revoked; others own some of the target",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.STABLE): "the others have revoked",
    (MemberState.UNRELEASED_PARTITIONS, MemberState.UNREVOKED_PARTITIONS): "a newer target takes partitions away",
}
"""The event of each transition. A member that does not revoke within its rebalance timeout is removed."""


def is_transition(before: MemberState, after: MemberState) -> bool:
    """Return whether a heartbeat may lead from one state to the other; from a later release's to any."""
    return before in (after, MemberState.UNKNOWN) or (before, after) in MEMBER_TRANSITIONS

"""The states of a streams group and of its members, and their transitions; `docs/states.md` has the diagrams.

Source: StreamsGroup.StreamsGroupState, CurrentAssignmentBuilder of Apache Kafka 4.3; KIP-1071.
"""

from enum import StrEnum
from typing import Final

from ottla.groups.streams.member import MemberState


class StreamsGroupState(StrEnum):
    """A state, with its name in StreamsGroupDescribe and ListGroups. A group computes it; it has no variable for it."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics of the topology are missing, or have numbers of partitions that do not fit."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


NAMES_IN_FILTERS: Final = {
    state: "not_ready" if state is StreamsGroupState.NOT_READY else state.lower() for state in StreamsGroupState
}
"""The names by which ListGroups selects states, in lower case."""

_LIVING: Final = (
    StreamsGroupState.NOT_READY,
    StreamsGroupState.ASSIGNING,
    StreamsGroupState.RECONCILING,
    StreamsGroupState.STABLE,
)

GROUP_TRANSITIONS: Final[dict[tuple[StreamsGroupState, StreamsGroupState], str]] = (
    {
        (StreamsGroupState.EMPTY, StreamsGroupState.NOT_READY): "a member joins; topics are missing",
        (StreamsGroupState.EMPTY, StreamsGroupState.ASSIGNING): "a member joins",
        (StreamsGroupState.NOT_READY, StreamsGroupState.ASSIGNING): "the missing topics are there",
        (StreamsGroupState.ASSIGNING, StreamsGroupState.RECONCILING): "a target assignment is computed",
        (StreamsGroupState.RECONCILING, StreamsGroupState.STABLE): "every member has its target assignment",
        (StreamsGroupState.RECONCILING, StreamsGroupState.ASSIGNING): "members or topics change",
        (StreamsGroupState.STABLE, StreamsGroupState.ASSIGNING): "members or topics change",
    }
    | {(state, StreamsGroupState.NOT_READY): "a topic is deleted" for state in _LIVING[1:]}
    | {(state, StreamsGroupState.EMPTY): "the last member leaves or fails" for state in _LIVING}
    | {(StreamsGroupState.EMPTY, StreamsGroupState.DEAD): "deleted, or its last offset has expired"}
)
"""The event of each transition."""

MEMBER_TRANSITIONS: Final[dict[tuple[MemberState, MemberState], str]] = {
    (MemberState.STABLE, MemberState.UNREVOKED_TASKS): "the target takes tasks away",
    (MemberState.STABLE, MemberState.UNRELEASED_TASKS): "the target gives tasks that others own",
    (MemberState.UNREVOKED_TASKS, MemberState.STABLE): "revoked; all of the target is free",
    (MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS): "revoked; others own some of the target",
    (MemberState.UNRELEASED_TASKS, MemberState.STABLE): "the others have revoked",
    (MemberState.UNRELEASED_TASKS, MemberState.UNREVOKED_TASKS): "a newer target takes tasks away",
}
"""The event of each transition. A member that does not revoke within its rebalance timeout is removed."""


def is_transition(before: MemberState, after: MemberState) -> bool:
    """Return whether a heartbeat may lead from one state to the other; from a later release's to any."""
    return before in (after, MemberState.UNKNOWN) or (before, after) in MEMBER_TRANSITIONS

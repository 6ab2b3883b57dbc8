"""The states of a classic group, and which may follow which.

    Empty ──join──> PreparingRebalance ──all joined, or time is up──> CompletingRebalance ──leader syncs──> Stable
      ^                  │    ^  ^                                          │                                │
      └──nobody joined───┘    │  └──a member joins anew, leaves or fails────┘                                │
                              └──a member joins anew, leaves or fails────────────────────────────────────────┘

Dead ends all of them: the group was deleted, or its partition moved to another broker.

Source: ClassicGroupState of Kafka.
"""

from enum import StrEnum


class ClassicGroupState(StrEnum):
    """Named as DescribeGroups and ListGroups show it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}

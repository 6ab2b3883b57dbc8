"""The states of a classic group and their transitions; `docs/states.md` has the diagram of `TRANSITIONS`.

Source: ClassicGroupState of Kafka.
"""

from enum import StrEnum
from typing import Final


class ClassicGroupState(StrEnum):
    """A state, with its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[tuple[ClassicGroupState, ClassicGroupState], str]] = {
    (ClassicGroupState.EMPTY, ClassicGroupState.PREPARING_REBALANCE): "a member joins",
    (
        ClassicGroupState.PREPARING_REBALANCE,
        ClassicGroupState.COMPLETING_REBALANCE,
    ): "all members have joined, or the time-out is over",
    (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.EMPTY): "no member has joined",
    (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE): "the leader's assignments are committed",
    (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.PREPARING_REBALANCE): "a member joins, leaves or fails",
    (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE): "a member joins, leaves or fails",
} | {
    (state, ClassicGroupState.DEAD): "deleted, converted to a consumer group, or led by another node"
    for state in ClassicGroupState
}
"""The event of each transition. Other transitions do not happen."""

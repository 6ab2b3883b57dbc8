"""The states of a share group and their transitions; `docs/states.md` has the diagram.

Source: ShareGroup.ShareGroupState of Apache Kafka 4.3; KIP-932.
"""

from enum import StrEnum
from typing import Final


class ShareGroupState(StrEnum):
    """A state, with its name in ShareGroupDescribe and ListGroups. A group computes it from its members."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[dict[tuple[ShareGroupState, ShareGroupState], str]] = {
    (ShareGroupState.EMPTY, ShareGroupState.STABLE): "a member joins",
    (ShareGroupState.STABLE, ShareGroupState.EMPTY): "the last member leaves or fails",
    (ShareGroupState.EMPTY, ShareGroupState.DEAD): "deleted",
}
"""The event of each transition. A group computes its state; it has no variable for it."""

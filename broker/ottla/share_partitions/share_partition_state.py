"""The states of a share-partition at its leader, and their transitions; `docs/states.md` has the diagram.

Source: SharePartition.SharePartitionState of Apache Kafka 4.3.1.
"""

from enum import StrEnum
from typing import Final


class SharePartitionState(StrEnum):
    """Whether the state of the share coordinator is known; `docs/states.md` has the diagram."""

    EMPTY = "Empty"
    INITIALIZING = "Initializing"
    ACTIVE = "Active"
    FAILED = "Failed"
    FENCED = "Fenced"


TRANSITIONS: Final[dict[tuple[SharePartitionState, SharePartitionState], str]] = {
    (SharePartitionState.EMPTY, SharePartitionState.INITIALIZING): "a member fetches; the share coordinator is read",
    (SharePartitionState.INITIALIZING, SharePartitionState.ACTIVE): "the state has been read",
    (SharePartitionState.INITIALIZING, SharePartitionState.FAILED): "the state cannot be read",
} | {
    (state, SharePartitionState.FENCED): "another node leads, the topic is deleted, or the group has a newer state"
    for state in SharePartitionState
}
"""The event of each transition. One that is Failed or Fenced is dropped; the next ShareFetch creates another."""

"""The states of a share group.

Source: ShareGroup.ShareGroupState of Apache Kafka 4.3; KIP-932.
"""

from enum import StrEnum


class ShareGroupState(StrEnum):
    """A state, with its name in ShareGroupDescribe and ListGroups. A group computes it from its members."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"

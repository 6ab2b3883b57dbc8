"""`GroupType`: the four protocols of groups, by the names that ListGroups has for them.

Source: Group.GroupType of Apache Kafka 4.3.
"""

from enum import StrEnum


class GroupType(StrEnum):
    """A group id belongs to one of them at a time."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

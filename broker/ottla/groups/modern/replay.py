"""`RecordReplay`: the replay of the records of one kind of group, the only way in which the state of a group changes.

Kafka does not load a log in which a group's tombstone comes before those of its members. Here the newest record counts:
a group's tombstone removes its members too.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ottla.groups.log import GroupRecord
from ottla.groups.modern.group import NO_ASSIGNMENT_EPOCH, ModernGroup
from ottla.wire.codec import Message

GroupT = TypeVar("GroupT", bound=ModernGroup[Any, Any])


@dataclass(frozen=True, slots=True)
class RecordReplay(Generic[GroupT]):
    """The records of one kind of group.

    Attributes:
        new_group: returns the group with an id before its first record.
        group_key: type of the key whose tombstone deletes the group.
        functions: change a group as a key and its value say, by the type of the key.
    """

    new_group: Callable[[str], GroupT]
    group_key: type[Message]
    functions: Mapping[type[Message], Callable[[GroupT, Any, Any], None]]

    def includes(self, record: GroupRecord) -> bool:
        return type(record.key) in self.functions

    def apply(self, group: GroupT, record: GroupRecord) -> bool:
        """Change ``group`` as the record says; return True when the record deletes the group itself."""
        if record.value is None and isinstance(record.key, self.group_key):
            return True
        self.functions[type(record.key)](group, record.key, record.value)
        return False


class TargetEpochValue(Protocol):
    """What all kinds of groups store when a target assignment is complete."""

    @property
    def assignment_epoch(self) -> int:
        """Return the group's epoch that the assignment was computed for."""

    @property
    def assignment_timestamp(self) -> int:
        """Return the time of the assignment by the wall clock; 0 if it is unknown."""


def replay_target_epoch(group: ModernGroup[Any, Any], _: Message, value: TargetEpochValue | None) -> None:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp

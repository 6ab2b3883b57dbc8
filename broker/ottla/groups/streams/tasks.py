"""`TaskAssignment`: the tasks of one member of a streams group, by kind.

A *task* is a subtopology with one partition number; it reads that partition of all source topics of the subtopology.

Source: TasksTuple of Apache Kafka 4.3.1 (KIP-1071).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Tasks: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions by subtopology id; no subtopology has an empty set. Never changed once it is in use."""


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """The tasks of a member; each of them is of one kind for the member.

    Attributes:
        active: tasks that the member runs.
        standby: tasks whose state the member keeps up to date, ready to run them.
        warmup: tasks whose state the member restores before it runs them; the assignor of Kafka 4.3 assigns none.
    """

    active: Tasks
    standby: Tasks
    warmup: Tasks

    def __len__(self) -> int:
        """Return the number of subtopologies, over all kinds."""
        return len(self.active) + len(self.standby) + len(self.warmup)


NO_TASKS: Final = TaskAssignment(active={}, standby={}, warmup={})

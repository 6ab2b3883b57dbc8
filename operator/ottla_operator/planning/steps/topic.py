"""Steps of a Topic, and reassignments of any topic."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.types import TopicPartition
from ottla_operator.ports.broker_admin import NewTopic

MOVES_MAX = 100
"""Partitions being reassigned at the same time: each is a copy that slows down clients."""

_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class CreateTopic:
    topic: NewTopic

    def __str__(self) -> str:
        factor = self.topic.replication_factor
        more = "" if factor is None else f", replication factor {factor}"
        return f"create topic {self.topic.name} ({self.topic.partitions} partitions{more})"


@dataclass(frozen=True, slots=True)
class AdoptTopic:
    """Adopt a topic that the operator did not create; this changes nothing, the next steps remove differences."""

    name: str
    partitions: int
    replication_factor: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        differs = f"; it differs: {', '.join(self.differences)}" if self.differences else ""
        return (
            f"take over topic {self.name}, which was there before ({self.partitions} partitions, replication factor "
            f"{self.replication_factor}){differs}"
        )


@dataclass(frozen=True, slots=True)
class AlterTopicConfigs:
    """Set ``upserts`` and reset ``deletions`` to the brokers' defaults, all or nothing."""

    name: str
    upserts: Mapping[str, str]
    deletions: tuple[str, ...]

    def __str__(self) -> str:
        return f"set on topic {self.name}: {', '.join(config_changes(self.upserts, self.deletions))}"


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    name: str
    total: int

    def __str__(self) -> str:
        return f"grow topic {self.name} to {self.total} partitions"


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    name: str

    def __str__(self) -> str:
        return f"delete topic {self.name} with its records"


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    """Start reassignments; ``targets`` are the new replicas, the preferred leader first."""

    targets: Mapping[TopicPartition, tuple[int, ...]]

    def __str__(self) -> str:
        shown = [f"{partition} to {','.join(map(str, nodes))}" for partition, nodes in self.targets.items()]
        more = f" and {len(shown) - _SHOWN_MAX} more" if len(shown) > _SHOWN_MAX else ""
        return f"move {'; '.join(shown[:_SHOWN_MAX])}{more}"


TopicStep = CreateTopic | AdoptTopic | AlterTopicConfigs | CreatePartitions | DeleteTopic | ReassignPartitions


def config_changes(upserts: Mapping[str, str], deletions: tuple[str, ...]) -> list[str]:
    """Describe each change of a configuration."""
    return [*(f"{key}={value}" for key, value in upserts.items()), *(f"{key} to its default" for key in deletions)]

"""`CoordinatorSettings`: how one coordinator differs from another, as far as the runtime is concerned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla.coordinator.serde import RecordSerde
from ottla.coordinator.shard import CoordinatorPartition, CoordinatorShard

ShardT = TypeVar("ShardT", bound=CoordinatorShard[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings(Generic[ShardT]):
    """The parts that a coordinator supplies to `CoordinatorRuntime`.

    Attributes:
        topic_name: its internal topic.
        partition_count: returns the number of partitions of that topic; None while the topic does not exist.
        serde: of the topic's records.
        build_shard: returns an empty state machine; called at each election.
        write_timeout_ms: how long a response waits for its records to be committed.
    """

    topic_name: str
    partition_count: Callable[[], int | None]
    serde: RecordSerde[Any]
    build_shard: Callable[[CoordinatorPartition[Any]], ShardT]
    write_timeout_ms: int

"""The port to a cluster's brokers: the few Admin calls that reconciliation needs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """What brokers say of themselves."""

    cluster_id: str
    controller_id: int
    """-1 while there is none."""
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic without its configs."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int


class BrokerAdmin(Protocol):
    """Admin calls on one cluster.

    Every method raises `ottla.errors.KafkaError` for what brokers refuse, and `BrokerUnreachableError` when none
    answers.
    """

    async def describe_cluster(self) -> ClusterDescription: ...

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return the topics that exist, by name; a name without a topic is absent."""

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return per topic the configs that are set on the topic itself (DYNAMIC_TOPIC_CONFIG)."""

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int,
        replication_factor: int | None,
        config: Mapping[str, str],
        validate_only: bool = False,
    ) -> None:
        """Create a topic; ``replication_factor`` None means the brokers' default."""

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None: ...

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        """Set and unset configs in one step: all or nothing."""

    async def delete_topic(self, name: str) -> None: ...


Connect = Callable[[str], AbstractAsyncContextManager[BrokerAdmin]]
"""From bootstrap servers to a connected admin, closed at the end of the ``async with``."""

"""The port to a cluster's brokers: the few Admin calls that reconciliation needs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ottla.errors import KafkaError
from ottla.types import Endpoint, TopicPartition
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.user_admin import UserAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int | None
    """None means the brokers' default."""
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic without its configs."""

    name: str
    topic_id: str
    replicas: tuple[tuple[int, ...], ...]
    """Broker ids by partition, including replicas that are being added and removed."""
    is_in_sync: bool = True
    """Whether every replica of every partition is in sync; an added replica is not before it has caught up."""

    @property
    def partitions(self) -> int:
        return len(self.replicas)

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as in Kafka's tools."""
        return len(self.replicas[0]) if self.replicas else 0


class BrokerAdmin(UserAdmin, Protocol):
    """Admin calls on one cluster.

    Every method raises `ottla.errors.KafkaError` for an error response of the brokers, and `BrokerUnreachableError` if
    none responds.
    """

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        """Return the brokers' view of the cluster, and of the partitions of ``topics`` (None: all).

        The topics' min.insync.replicas are requested only if ``with_min_isr`` is set; configs of all brokers and
        features only if ``with_settings`` is.

        Raises:
            QuorumLostError: brokers respond, but the metadata quorum has no leader.
        """

    async def advertised_listeners(self, node_id: int) -> str:
        """Return ``advertised.listeners`` of the running broker ``node_id``; empty without any."""

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        """Set and remove cluster-wide defaults of brokers in one step: all or nothing."""

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        """Finalize feature levels, all or none; a downgrade must be lossless."""

    async def describe_own_configs(self, node_ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return the configs set on each broker (DYNAMIC_BROKER_CONFIG); a broker that does not respond is absent."""

    async def alter_own_configs(self, node_id: int, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        """Set and remove configs of one broker, in one step; the request goes to that broker."""

    async def describe_sizes(self) -> Mapping[TopicPartition, int]:
        """Return the bytes of one replica of each partition, of the largest if they differ."""

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Start reassignments; raises for the first that is rejected, others may have started."""

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        """Elect preferred leaders; a partition that keeps another leader is no error and is checked again later."""

    async def unregister_broker(self, node_id: int) -> None:
        """Unregister a broker; one that is not registered is no error."""

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        """Add a controller that follows the quorum as a voter; one that is a voter is no error."""

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        """Remove a voter from the quorum; one that is no voter is no error."""

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return the existing topics by name; a name without a topic is absent."""

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return per topic the configs set on the topic itself (DYNAMIC_TOPIC_CONFIG)."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        """Create each of ``topics``; return errors by name. One failure does not stop the others."""

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None: ...

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        """Set and remove configs in one step: all or nothing."""

    async def delete_topic(self, name: str) -> None: ...


Connect = Callable[[str, Mapping[str, str]], AbstractAsyncContextManager[BrokerAdmin]]
"""From bootstrap servers and the client's security properties (empty: none) to a connected admin, closed at the end of
the ``async with``."""

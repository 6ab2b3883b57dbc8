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
    """A topic that is to be created."""

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
    """Broker ids by partition, with those who come and those who go."""
    is_in_sync: bool = True
    """Whether every replica of every partition is in sync; one that comes is not until it has everything."""

    @property
    def partitions(self) -> int:
        return len(self.replicas)

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as Kafka's tools say it."""
        return len(self.replicas[0]) if self.replicas else 0


class BrokerAdmin(UserAdmin, Protocol):
    """Admin calls on one cluster.

    Every method raises `ottla.errors.KafkaError` for what brokers refuse, and `BrokerUnreachableError` when none
    answers.
    """

    async def observe(
        self, *, topics: Sequence[str] | None = None, with_min_isr: bool = False, with_settings: bool = False
    ) -> ClusterView:
        """Return what the brokers say of the cluster, and of the partitions of ``topics`` (None: all).

        The topics' min.insync.replicas are asked for only when ``with_min_isr`` is set; configs of all brokers and
        features only when ``with_settings`` is.

        Raises:
            QuorumLostError: brokers answer, and the metadata quorum has no leader.
        """

    async def advertised_listeners(self, node_id: int) -> str:
        """Return what the broker ``node_id`` runs with as ``advertised.listeners``; empty where it has none."""

    async def alter_broker_configs(self, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        """Set and unset the defaults of all brokers in one step: all or nothing."""

    async def update_features(self, levels: Mapping[str, int], *, is_down: bool) -> None:
        """Finalize other levels, all or none; down only where nothing is lost."""

    async def describe_own_configs(self, node_ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return what is set on each broker alone (DYNAMIC_BROKER_CONFIG); one that does not answer is absent."""

    async def alter_own_configs(self, node_id: int, *, upserts: Mapping[str, str], deletions: Sequence[str]) -> None:
        """Set and unset configs of one broker, in one step; it is asked itself."""

    async def describe_sizes(self) -> Mapping[TopicPartition, int]:
        """Return the bytes of one replica of each partition, of the largest where they differ."""

    async def reassign_partitions(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Start moving partitions to other replicas; raises for the first that is refused, others may move."""

    async def elect_preferred_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        """Ask for it; a partition that has another leader after all is looked at again, and no error."""

    async def unregister_broker(self, node_id: int) -> None:
        """Make the cluster forget a broker; one that it does not know is no error."""

    async def add_voter(self, node_id: int, directory_id: str, endpoint: Endpoint) -> None:
        """Make a controller that follows the quorum a voter; one that is a voter is no error."""

    async def remove_voter(self, node_id: int, directory_id: str) -> None:
        """Take a voter out of the quorum; one that is not in it is no error."""

    async def describe_topics(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return the topics that exist, by name; a name without a topic is absent."""

    async def describe_topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return per topic the configs that are set on the topic itself (DYNAMIC_TOPIC_CONFIG)."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaError]:
        """Create each of ``topics``; return by name why one was not, which keeps no other from being created."""

    async def create_partitions(self, name: str, *, total: int, validate_only: bool = False) -> None: ...

    async def alter_topic_configs(
        self, name: str, *, upserts: Mapping[str, str], deletions: Sequence[str], validate_only: bool = False
    ) -> None:
        """Set and unset configs in one step: all or nothing."""

    async def delete_topic(self, name: str) -> None: ...


Connect = Callable[[str, Mapping[str, str]], AbstractAsyncContextManager[BrokerAdmin]]
"""From bootstrap servers and the properties of a client's security (empty: none) to a connected admin, closed at the
end of the ``async with``."""

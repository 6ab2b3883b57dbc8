"""`CoordinatorPublisher`: from the metadata to a coordinator: which partitions of its internal topic this node leads.

Source: BrokerMetadataPublisher of Apache Kafka 4.3 (updateCoordinator).
"""

from collections.abc import Iterable
from typing import Protocol

from ottla.coordinator.replicated_log import ReplicatedCoordinatorLog
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.types import LeaderEpoch, NodeId
from ottla.wire.records import RecordBatch


class Coordinator(Protocol):
    """The events by which a coordinator follows the metadata."""

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """Load ``batches``, then serve ``partition``, which this node leads in ``leader_epoch``."""

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """Stop serving ``partition``; ``leader_epoch`` of the new leader, None when the replica is gone."""

    def on_metadata_update(self, delta: MetadataDelta) -> None:
        """Follow the changes of topics; the metadata cache has the new image."""


class CoordinatorPublisher:
    """Reports elections, resignations and changes of topics to a coordinator; a publisher of the metadata loader.

    Comes after the replica manager, whose logs it reads.
    """

    def __init__(self, *, node_id: NodeId, log: ReplicatedCoordinatorLog, coordinator: Coordinator) -> None:
        self._node_id = node_id
        self._log = log
        self._coordinator = coordinator

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changes = delta.topics.local_changes(self._node_id, topic_name=self._log.topic_name)
        for topic_partition in changes.deletes:
            self._coordinator.on_resigned(topic_partition.partition)
        for topic_partition, local in changes.followers.items():
            self._coordinator.on_resigned(topic_partition.partition, local.partition.leader_epoch)
        for topic_partition, local in changes.elected_leaders.items():
            batches = self._log.read_at_election(topic_partition.partition)
            if batches is not None:
                self._coordinator.on_elected(topic_partition.partition, local.partition.leader_epoch, batches)
        self._coordinator.on_metadata_update(delta)

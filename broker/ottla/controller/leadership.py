"""What a broker that comes, goes or may have lost data means to the partitions.

Source: ReplicationControlManager.generateLeaderAndIsrUpdates and its callers in Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable

from ottla.controller.configs import ConfigControl
from ottla.controller.elections import Election, PartitionChange
from ottla.controller.state import ControllerState
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    PartitionRegistration,
    TopicImage,
)
from ottla.types import NodeId, Uuid

NO_BROKER = -1
_ALWAYS_ONLINE = frozenset({DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED})

PartitionFilter = Callable[[PartitionRegistration], bool]


class LeadershipControl:
    """Makes the change records; changes nothing itself."""

    def __init__(self, state: ControllerState, configs: ConfigControl) -> None:
        self._state = state
        self._configs = configs

    def on_fenced(self, broker_id: NodeId) -> list[MetadataRecord]:
        """Take the broker out of every in-sync set, and elect others where it leads."""
        return self._changes(lambda partition: broker_id in partition.isr, leaving=broker_id)

    def on_unfenced(self, broker_id: NodeId) -> list[MetadataRecord]:
        """Give the partitions without a leader a chance, now that the broker is there."""
        return self._changes(lambda partition: not partition.has_leader, coming=broker_id)

    def on_unclean_shutdown(self, broker_id: NodeId) -> list[MetadataRecord]:
        """Trust the broker with nothing: it may have lost what it had in memory (KIP-966)."""
        return self._changes(
            lambda partition: broker_id in partition.isr or broker_id in partition.elr, lost_data=broker_id
        )

    def on_directories_offline(self, broker_id: NodeId, directories: frozenset[Uuid]) -> list[MetadataRecord]:
        """Take the broker out of the in-sync set of the partitions in ``directories``."""
        return self._changes(
            lambda partition: broker_id in partition.isr and partition.directory_of(broker_id) in directories,
            leaving=broker_id,
        )

    def change(
        self, topic: TopicImage, partition_id: int, may_lead: Callable[[NodeId], bool] | None = None
    ) -> PartitionChange:
        """Return a change of one partition that, as it is, only elects a leader where one is needed."""
        partition = topic.partitions[partition_id]
        accepts = may_lead or self._state.image.cluster.is_active
        return PartitionChange(
            topic_id=topic.topic_id,
            partition_id=partition_id,
            partition=partition,
            may_lead=lambda broker_id: accepts(broker_id) and self._has_online_directory(broker_id, partition),
            min_isr=self._configs.min_insync_replicas(topic.name),
            elr_enabled=self._state.image.features.is_elr_enabled,
            election=Election.UNCLEAN if self._configs.unclean_election_enabled(topic.name) else Election.ONLINE,
        )

    def _changes(
        self,
        is_concerned: PartitionFilter,
        *,
        leaving: NodeId = NO_BROKER,
        coming: NodeId = NO_BROKER,
        lost_data: NodeId = NO_BROKER,
    ) -> list[MetadataRecord]:
        is_active = self._state.image.cluster.is_active
        gone = frozenset({leaving, lost_data}) - {NO_BROKER}

        def may_lead(broker_id: NodeId) -> bool:
            return broker_id not in gone and (broker_id == coming or is_active(broker_id))

        versions = self._state.image.features.record_versions
        records = []
        for topic, partition_id, partition in self._concerned(is_concerned):
            change = self.change(topic, partition_id, may_lead)
            change.isr = [replica for replica in partition.isr if replica not in gone]
            if lost_data != NO_BROKER:
                change.unclean_shutdown = frozenset({lost_data})
            record = change.to_record(versions)
            if record is not None:
                records.append(record)
        return records

    def _concerned(self, is_concerned: PartitionFilter) -> Iterable[tuple[TopicImage, int, PartitionRegistration]]:
        return (each for each in self._state.partitions() if is_concerned(each[2]))

    def _has_online_directory(self, broker_id: NodeId, partition: PartitionRegistration) -> bool:
        broker = self._state.image.cluster.brokers.get(broker_id)
        directory = partition.directory_of(broker_id)
        if broker is None or directory == DIRECTORY_LOST:
            return False
        return directory in _ALWAYS_ONLINE or not broker.directories or directory in broker.directories

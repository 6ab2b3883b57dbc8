"""Between the metadata and the group coordinator: which partitions of ``__consumer_offsets`` this node leads.

Also the coordinator's way to write them. Source: CoordinatorRuntime and BrokerMetadataPublisher of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.groups.coordinator import GroupCoordinator
from ottla.log.partition_log import PartitionLog
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.purgatory import Delayed
from ottla.replication.replica_manager import ReplicaManager
from ottla.types import CONSUMER_OFFSETS_TOPIC, NodeId, Offset, TopicPartition
from ottla.wire.records import RecordBatch, iterate_batches

_READ_SIZE_BYTES = 1024 * 1024


class ReplicatedOffsetsLog:
    """`groups.offsets_log.OffsetsLog` on the node's own replicas."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def read_again(self, partition: int) -> Iterator[RecordBatch] | None:
        """Return everything in the log of a partition that this node leads; None when it does not."""
        found = self._replicas.find(CONSUMER_OFFSETS_TOPIC, partition)
        if found is None or not found.is_leader:
            return None
        return batches_between(found.log, found.log.log_start_offset, found.log.log_end_offset)

    def append(self, partition: int, batch: bytes) -> Delayed[ErrorCode]:
        return self._replicas.append_committed(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition), batch)


class GroupPartitionsPublisher:
    """Tells the coordinator of elections, lost partitions and deleted topics; a publisher of the metadata loader.

    Comes after the replica manager, whose logs it reads.
    """

    def __init__(self, *, node_id: NodeId, replicas: ReplicaManager, groups: GroupCoordinator) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._groups = groups

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changes = delta.topics.local_changes(self._node_id, topic_name=CONSUMER_OFFSETS_TOPIC)
        for topic_partition in changes.deletes:
            self._groups.on_resigned(topic_partition.partition)
        for topic_partition, local in changes.followers.items():
            self._groups.on_resigned(topic_partition.partition, local.partition.leader_epoch)
        for topic_partition, local in changes.elected_leaders.items():
            batches = self._written(topic_partition)
            if batches is not None:
                self._groups.on_elected(topic_partition.partition, local.partition.leader_epoch, batches)
        deleted = [topic.name for topic in delta.topics.deleted_topics.values()]
        if deleted:
            self._groups.on_topics_deleted(deleted)

    def _written(self, topic_partition: TopicPartition) -> Iterator[RecordBatch] | None:
        """Return what is in the log of a partition that this node leads; None when the disk refused it."""
        if self._replicas.is_yet_to_be_made(topic_partition):
            # Asking for it would make it: the fifty logs of a new topic at once stop the loop for a tenth of a second.
            return iter(())
        partition = self._replicas.find(*topic_partition)
        if partition is None:
            return None
        return batches_between(partition.log, partition.log.log_start_offset, partition.log.log_end_offset)


def batches_between(log: PartitionLog, start: Offset, end: Offset) -> Iterator[RecordBatch]:
    """Yield the whole batches from ``start`` up to ``end``, a megabyte read at a time.

    Raises:
        KafkaError: the log no longer has them, or the disk refused.
    """
    while start < end:
        found = log.read(start, size_bytes_max=_READ_SIZE_BYTES, upper_bound_offset=end).records
        if found is None:
            return
        for batch in iterate_batches(bytearray(found.read())):
            if batch.last_offset >= start:
                yield batch
                start = batch.next_offset

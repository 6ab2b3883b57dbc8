"""All partitions that have a replica on this node: made and removed as the metadata says, appended to and read from.

The manager owns the waiting rooms of the data path: produces that wait for the high watermark, and fetches that wait
for records. Source: kafka.server.ReplicaManager of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.partition_log import AppendOrigin, AppendResult, PartitionLog
from ottla.metadata.configs import ConfigResourceType
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.topics import LocalReplica
from ottla.metrics.traffic import TopicTraffic, Traffic
from ottla.ports import Buffer, Clock
from ottla.purgatory import Delayed, Purgatory
from ottla.replication.config import ReplicationConfig
from ottla.replication.neighbours import Neighbours
from ottla.replication.partition import NO_LEADER, Partition
from ottla.types import NodeId, TopicPartition
from ottla.wire.codec import Message

logger = logging.getLogger(__name__)

_ASSIGNED_PER_TICK = 5
COMMIT_TIMEOUT_MS = 5_000
"""How long a coordinator waits for its records to be committed (offsets.commit.timeout.ms)."""


class ReplicaManager:
    """See the module.

    ``config_of_topic`` gives the resolved configuration of a topic's logs from the current metadata.
    ``syncs_before_commit``: ottla.acks.fsync. Without ``neighbours`` the node is alone: it follows nobody.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        clock: Clock,
        config_of_topic: Callable[[str], LogConfig],
        syncs_before_commit: bool = False,
        neighbours: Neighbours | None = None,
        config: ReplicationConfig | None = None,
    ) -> None:
        self.node_id = node_id
        self.config = config or ReplicationConfig()
        self._neighbours = neighbours
        self.produce_purgatory: Purgatory[Message] = Purgatory()
        self.fetch_purgatory: Purgatory[Message] = Purgatory()
        self.commit_purgatory: Purgatory[ErrorCode] = Purgatory()
        self.traffic = Traffic()
        self._logs = logs
        self._clock = clock
        self._config_of_topic = config_of_topic
        self._partitions: dict[TopicPartition, Partition] = {}
        self._unassigned: dict[TopicPartition, LocalReplica] = {}
        self._syncs_before_commit = syncs_before_commit
        self._syncing: set[TopicPartition] = set()
        self._image = EMPTY_IMAGE

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def find(self, topic: str, partition: int) -> Partition | None:
        wanted = TopicPartition(topic, partition)
        unassigned = self._unassigned.pop(wanted, None)
        if unassigned is not None:
            self._assign(wanted, unassigned)
        return self._partitions.get(wanted)

    def get(self, topic: str, partition: int) -> Partition:
        """Return the partition.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER when it lives on other nodes, KAFKA_STORAGE_ERROR when its disk failed,
                UNKNOWN_TOPIC_OR_PARTITION when the cluster has none such.
        """
        found = self._partitions.get((topic, partition))  # type: ignore[call-overload]
        if found is not None:
            assert isinstance(found, Partition)
            return found
        found = self.find(topic, partition)
        if found is not None:
            return found
        wanted = TopicPartition(topic, partition)
        registration = self._image.topics.partition(wanted)
        if registration is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.node_id in registration.replicas:
            raise StorageError(f"{wanted} is on a log directory that failed")
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def update_config(self, config: ReplicationConfig) -> None:
        """Take settings that were changed while the node runs: fetcher_count and the throttled rates."""
        self.config = config

    def traffic_of(self, topic: str) -> TopicTraffic:
        """Return the topic's counters, made on first use."""
        return self.traffic.of(topic)

    def append(
        self, partition: Partition, records: Buffer, *, origin: AppendOrigin, required_acks: int
    ) -> AppendResult:
        """Append one batch to a partition that this node leads, and wake the fetches that wait for it.

        Raises:
            KafkaError: what `Partition.append_as_leader` raises.
        """
        result = partition.append_as_leader(
            records, origin=origin, required_acks=required_acks, now_ms=self._clock.wall_ms()
        )
        self.fetch_purgatory.check(partition.topic_partition)
        if partition.syncs_before_commit:
            self._sync(partition)
        return result

    def _sync(self, partition: Partition) -> None:
        """Bring everything appended so far to the disk; one sync covers all appends that wait for it."""
        topic_partition = partition.topic_partition
        if topic_partition in self._syncing:
            return
        self._syncing.add(topic_partition)
        end_offset = partition.log.log_end_offset

        def synced(error: StorageError | None) -> None:
            self._syncing.discard(topic_partition)
            if error is not None or self._partitions.get(topic_partition) is not partition:
                return  # the log directory is offline by now, or the partition gone: its waiters are told so
            if partition.on_synced():
                self._wake(topic_partition)
            if partition.log.log_end_offset > end_offset:
                self._sync(partition)

        partition.log.flush_later(synced)

    def append_committed(self, topic_partition: TopicPartition, batch: bytes) -> Delayed[ErrorCode]:
        """Append a coordinator's batch with acks=all; complete with NONE once it is committed."""
        try:
            partition = self.get(*topic_partition)
            result = self.append(partition, bytearray(batch), origin=AppendOrigin.COORDINATOR, required_acks=-1)
        except KafkaError as error:
            return Delayed.of(error.code)
        return self.commit_purgatory.watch(
            (topic_partition,),
            deadline_ms=self._clock.monotonic_ms() + COMMIT_TIMEOUT_MS,
            try_complete=lambda: partition.committed_error() if partition.is_committed(result.last_offset) else None,
            on_deadline=lambda: ErrorCode.REQUEST_TIMED_OUT,
        )

    # --- what the metadata says ----------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Make, change and remove this node's partitions as the next image has them; a publisher of the loader."""
        self._image = image
        changes = delta.topics.local_changes(self.node_id)
        for topic_partition in changes.deletes:
            self._remove(topic_partition)
        for local_changes in (changes.leaders, changes.followers):
            for topic_partition, local in local_changes.items():
                if topic_partition in self._partitions:
                    self._assign(topic_partition, local)
                else:
                    # Making a log takes a dozen system calls: thousands at once would stop the loop for seconds.
                    self._unassigned[topic_partition] = local
        self._assign_some()
        for resource in delta.configs.changes:
            if resource.type is ConfigResourceType.TOPIC and resource.name in image.topics.by_name:
                self._logs.update_config(resource.name, self._config_of_topic(resource.name))
            elif resource.type is ConfigResourceType.BROKER and resource.name in ("", str(self.node_id)):
                self._update_all_configs()

    def remove_strays(self) -> list[TopicPartition]:
        """Move aside the logs that the metadata gives to nobody here; to be called once, after the first image."""
        return self._logs.move_aside_strays(self._is_stray)

    def _is_stray(self, log: PartitionLog) -> bool:
        return log.topic_partition not in self._partitions and log.topic_partition not in self._unassigned

    def _assign_some(self) -> None:
        """Make the logs of the next few new partitions; the others come with the next ticks, or when asked for."""
        for topic_partition in list(islice(self._unassigned, _ASSIGNED_PER_TICK)):
            self._assign(topic_partition, self._unassigned.pop(topic_partition))

    def _update_all_configs(self) -> None:
        for topic in sorted({topic_partition.topic for topic_partition in self._partitions}):
            self._logs.update_config(topic, self._config_of_topic(topic))

    def _assign(self, topic_partition: TopicPartition, local: LocalReplica) -> None:
        registration = local.partition
        partition = self._partitions.get(topic_partition)
        if partition is None or partition.topic_id != local.topic_id:
            try:
                log = self._logs.get_or_create(
                    topic_partition,
                    topic_id=local.topic_id,
                    config=self._config_of_topic(topic_partition.topic),
                    directory_id=registration.directory_of(self.node_id),
                )
            except StorageError as error:
                logger.error("cannot open %s: %s; its clients get KAFKA_STORAGE_ERROR", topic_partition, error)
                return
            partition = Partition(
                topic_partition=topic_partition,
                topic_id=local.topic_id,
                node_id=self.node_id,
                log=log,
                syncs_before_commit=self._syncs_before_commit,
            )
            self._partitions[topic_partition] = partition
        if registration.leader == self.node_id:
            partition.lead(
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                replicas=registration.replicas,
                in_sync=registration.isr,
            )
        else:
            partition.follow(
                leader=registration.leader,
                leader_epoch=registration.leader_epoch,
                partition_epoch=registration.partition_epoch,
                replicas=registration.replicas,
                in_sync=registration.isr,
            )
        self._wake(topic_partition)
        if partition.syncs_before_commit and partition.is_leader:
            # What recovery found may be in the page cache only: it is committed once it is on the disk.
            self._sync(partition)

    def _remove(self, topic_partition: TopicPartition) -> None:
        self._unassigned.pop(topic_partition, None)
        partition = self._partitions.pop(topic_partition, None)
        if partition is None:
            return
        partition.leader = NO_LEADER
        self._logs.delete(topic_partition)
        self._wake(topic_partition)
        if topic_partition.topic not in self._image.topics.by_name:
            self.traffic.forget(topic_partition.topic)

    def on_directory_failure(self, lost: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log directory failed."""
        for topic_partition in lost:
            partition = self._partitions.pop(topic_partition, None)
            if partition is not None:
                partition.leader = NO_LEADER
                self._wake(topic_partition)

    def _wake(self, topic_partition: TopicPartition) -> None:
        self.produce_purgatory.check(topic_partition)
        self.commit_purgatory.check(topic_partition)
        self.fetch_purgatory.check(topic_partition)

    # --- time ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Give up on what has waited long enough."""
        self.produce_purgatory.expire(now_ms)
        self.fetch_purgatory.expire(now_ms)
        self.commit_purgatory.expire(now_ms)
        if self._unassigned:
            self._assign_some()

    def next_deadline_ms(self) -> int | None:
        if self._unassigned:
            return self._clock.monotonic_ms()
        deadlines = [
            deadline
            for purgatory in (self.produce_purgatory, self.fetch_purgatory, self.commit_purgatory)
            if (deadline := purgatory.next_deadline_ms()) is not None
        ]
        return min(deadlines, default=None)

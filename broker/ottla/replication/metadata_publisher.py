"""`ReplicaMetadataPublisher`: creates, changes and removes this node's partitions to match each metadata image.

It owns this node's partitions. Logs are created and deleted a few per tick: an image may add or remove thousands, and
each takes several system calls. A request for a partition without a log has it created at once (`find`). A partition
that is to be removed is no longer found: its log only waits to be deleted.

Source: ReplicaManager.applyDelta and BrokerMetadataPublisher of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Final

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ShortageError, StorageError
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log_lines import LineLimit
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.topics import LocalReplica
from ottla.metrics.traffic import Traffic
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.replication.partition_opener import PartitionOpener
from ottla.replication.partition_roles import PartitionRoles
from ottla.replication.peer_brokers import Brokers
from ottla.replication.quota import ReplicationQuota
from ottla.types import NodeId, TopicPartition

logger = logging.getLogger(__name__)

_ASSIGNED_PER_TICK: Final = 5
_ASSIGNING_MS_MAX: Final = 1
"""A log takes a third of a millisecond to create; ten when the file system is busy."""
REMOVED_PER_TICK: Final = 20
"""A log takes 50 us to delete: its directory is renamed."""
LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"


class ReplicaMetadataPublisher:
    """See the module; a publisher of the metadata loader.

    Args of the constructor:
        config_of_topic: returns the resolved configuration of a topic's logs from the current metadata.
        on_config: called with a partition whose topic has another configuration now.
        on_changed: called with the partitions that were assigned or removed; requests may wait for that.
        on_published: called after each image; whether brokers have changed with it.

    Attributes:
        partitions: the partitions that this node leads or follows.
        image: the newest image.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        clock: Clock,
        config_of_topic: Callable[[str], LogConfig],
        brokers: Brokers,
        opener: PartitionOpener,
        roles: PartitionRoles,
        leader_quota: ReplicationQuota,
        follower_quota: ReplicationQuota,
        traffic: Traffic,
        on_config: Callable[[Partition], object],
        on_changed: Callable[[Collection[TopicPartition]], object],
        on_published: Callable[[bool], object],
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.image = EMPTY_IMAGE
        self._node_id = node_id
        self._logs = logs
        self._clock = clock
        self._config_of_topic = config_of_topic
        self._brokers = brokers
        self._opener = opener
        self._roles = roles
        self._leader_quota = leader_quota
        self._follower_quota = follower_quota
        self._traffic = traffic
        self._on_config = on_config
        self._on_changed = on_changed
        self._on_published = on_published
        self._unassigned: dict[TopicPartition, LocalReplica] = {}
        self._to_remove: dict[TopicPartition, Partition] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._shortage_lines = LineLimit(clock)

    @property
    def has_logs_to_create(self) -> bool:
        """Whether partitions of this node have no log yet."""
        return bool(self._unassigned)

    @property
    def has_changes_left(self) -> bool:
        """Whether `apply_some` has work."""
        return bool(self._unassigned or self._to_remove)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Create, change and remove this node's partitions to match ``image``."""
        self.image = image
        self._brokers.image = image.cluster
        # First: a log was opened without its topic's configuration, which its partition needs to lead or follow.
        self._publish_configs(delta, image)
        changes = delta.topics.local_changes(self._node_id)
        for topic_partition in changes.deletes:
            self._unassigned.pop(topic_partition, None)
            partition = self.partitions.pop(topic_partition, None)
            if partition is not None:
                self._to_remove[topic_partition] = partition
                self._changed[topic_partition] = None
        for local_changes in (changes.leaders, changes.followers):
            for topic_partition, local in local_changes.items():
                if self._has_log(topic_partition):
                    self._assign(topic_partition, local)
                else:
                    # Creating a log takes a dozen system calls: thousands at once would stop the loop for seconds.
                    self._unassigned[topic_partition] = local
        self.apply_some()
        self._on_published(bool(delta.cluster.changed_brokers))

    def _has_log(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self._to_remove:
            return False
        return topic_partition in self.partitions or self._logs.get(topic_partition) is not None

    def _publish_configs(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topics: dict[str, None] = {}
        for resource in delta.configs.changes:
            if resource.type is ConfigResourceType.TOPIC:
                values = image.configs.of_topic(resource.name)
                self._leader_quota.throttle(resource.name, values.get(LEADER_THROTTLED_REPLICAS), self._node_id)
                self._follower_quota.throttle(resource.name, values.get(FOLLOWER_THROTTLED_REPLICAS), self._node_id)
                if resource.name in image.topics.by_name:
                    topics[resource.name] = None
            elif resource.type is ConfigResourceType.BROKER and resource.name in ("", str(self._node_id)):
                topics |= dict.fromkeys(sorted({topic_partition.topic for topic_partition in self.partitions}))
        for topic in topics:
            self._logs.update_config(topic, self._config_of_topic(topic))
        if topics:
            for partition in [each for each in self.partitions.values() if each.topic_partition.topic in topics]:
                self._on_config(partition)

    # --- assignment

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition, created now if the metadata has just assigned it to this node."""
        unassigned = self._unassigned.pop(topic_partition, None)
        if unassigned is not None:
            self._assign(topic_partition, unassigned)
            self._announce_changes()
        return self.partitions.get(topic_partition)

    def is_yet_to_be_created(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition that the metadata assigns to this node has no log yet: it is empty."""
        return topic_partition in self._unassigned and not self._logs.has_any_of(topic_partition)

    def remove_strays(self) -> list[TopicPartition]:
        """Move aside the logs that the metadata assigns to other nodes; to be called once, after the first image."""
        self._roles.remove_stray_copies(self._is_stray)
        return self._logs.move_aside_strays(lambda log: self._is_stray(log.topic_partition))

    def _is_stray(self, topic_partition: TopicPartition) -> bool:
        return topic_partition not in self.partitions and topic_partition not in self._unassigned

    def compare_directory(self, partition: Partition) -> None:
        """Report the directory of a partition's log to the controller, if the metadata has another one."""
        registration = self.image.topics.partition(partition.topic_partition)
        if registration is not None and self.partitions.get(partition.topic_partition) is partition:
            self._opener.compare_directory(partition, LocalReplica(partition.topic_id, registration))

    def apply_some(self) -> None:
        """Delete and create the logs of the next few partitions; the others follow in later ticks or on request."""
        for topic_partition in list(islice(self._to_remove, REMOVED_PER_TICK)):
            self._remove(topic_partition)
        started_ms = self._clock.monotonic_ms()
        for topic_partition in list(islice(self._unassigned, _ASSIGNED_PER_TICK)):
            self._assign(topic_partition, self._unassigned.pop(topic_partition))
            if self._clock.monotonic_ms() > started_ms + _ASSIGNING_MS_MAX:
                break
        self._announce_changes()

    def close(self) -> None:
        """Delete the logs that are to be deleted: the next start would find them as strays, and keep them."""
        for topic_partition in list(self._to_remove):
            self._remove(topic_partition)

    def _announce_changes(self) -> None:
        """Retry the requests that wait for the changed partitions: each fetch once, however many it waits for."""
        if self._changed:
            changed, self._changed = self._changed, {}
            self._on_changed(changed)

    def _assign(self, topic_partition: TopicPartition, local: LocalReplica) -> None:
        self._remove(topic_partition)
        partition = self.partitions.get(topic_partition)
        is_new = partition is None or partition.topic_id != local.topic_id
        if partition is None or is_new:
            if partition is not None:
                self._end(self.partitions.pop(topic_partition))
            partition = self._open(topic_partition, local)
            if partition is None:
                return
        if local.partition.leader == self._node_id:
            self._roles.lead(partition, local.partition)
        else:
            self._roles.follow(partition, local.partition, is_new=is_new)
        self._roles.continue_move(partition)
        self._opener.compare_directory(partition, local)
        self._changed[topic_partition] = None
        self._roles.sync(partition)

    def _open(self, topic_partition: TopicPartition, local: LocalReplica) -> Partition | None:
        try:
            partition = self._opener.open(topic_partition, local)
        except ShortageError as error:
            if self._shortage_lines.take_permit():
                logger.warning("cannot open %s for now: %s; retrying", topic_partition, error)
            self._unassigned[topic_partition] = local
            return None
        if partition is not None:
            self.partitions[topic_partition] = partition
        return partition

    def _remove(self, topic_partition: TopicPartition) -> None:
        """Delete the log of a partition that is to be removed: the metadata has deleted it, or it is on other nodes."""
        partition = self._to_remove.pop(topic_partition, None)
        if partition is None:
            return
        self._end(partition)
        try:
            self._logs.delete(topic_partition)
        except StorageError as error:
            logger.warning("cannot delete the log of %s: %s; its directory is offline", topic_partition, error)
        if topic_partition.topic not in self.image.topics.by_name:
            self._traffic.drop_topic(topic_partition.topic)

    def on_directory_failure(self, lost: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log directory failed."""
        for topic_partition in lost:
            partition = self.partitions.pop(topic_partition, None)
            if partition is not None:
                self._end(partition, is_lost=True)
        self._announce_changes()

    def _end(self, partition: Partition, *, is_lost: bool = False) -> None:
        """Stop leading or following it, and note that for waiting requests."""
        self._roles.end(partition, is_lost=is_lost)
        self._changed[partition.topic_partition] = None

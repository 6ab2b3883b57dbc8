"""`PartitionOpener`: opens the log of a partition that the metadata assigns to this node, and reports its directory.

The controller has to know the log directory of each replica: a failed directory makes its replicas fail (KIP-858).
"""

import logging
from collections.abc import Callable

from ottla.errors import StorageError
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.recovery import CorruptLogError
from ottla.log.unknown_epochs import truncate_unknown_epochs
from ottla.metadata.cluster import DIRECTORY_LOST, RESERVED_DIRECTORIES_END
from ottla.metadata.topics import LocalReplica
from ottla.replication.config import ReplicationConfig
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.isr.partition_isr import PartitionIsr
from ottla.replication.partition import NO_LEADER, Partition
from ottla.replication.peer_brokers import Brokers
from ottla.types import NodeId, TopicPartition

logger = logging.getLogger(__name__)


class PartitionOpener:
    """See the module.

    ``config_of_topic`` returns the resolved configuration of a topic's logs from the current metadata;
    ``is_reported_by_move`` whether `DirectoryMoves` reports the directory that a log is being moved to.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        logs: LogManager,
        brokers: Brokers,
        directories: DirectoryAssignments,
        config: Callable[[], ReplicationConfig],
        config_of_topic: Callable[[str], LogConfig],
        is_reported_by_move: Callable[[TopicPartition], bool],
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._brokers = brokers
        self._directories = directories
        self._config = config
        self._config_of_topic = config_of_topic
        self._is_reported_by_move = is_reported_by_move

    def open(self, topic_partition: TopicPartition, local: LocalReplica) -> Partition | None:
        """Return the partition with its log opened; None when the disk fails.

        Raises:
            ShortageError: the node is out of descriptors or memory for now.
        """
        directory_id = local.partition.directory_of(self._node_id)
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id not in (None, local.topic_id):
            # The topic was deleted and created again while this node was away.
            self._logs.move_aside_strays(lambda other: other is log)
        try:
            if local.partition.leader not in (NO_LEADER, self._node_id) and self._logs.drop_corrupt(topic_partition):
                logger.warning(
                    "%s: dropped the corrupt log; copying it again from node %d",
                    topic_partition,
                    local.partition.leader,
                )
            log = self._logs.get_or_create(
                topic_partition,
                topic_id=local.topic_id,
                config=self._config_of_topic(topic_partition.topic),
                directory_id=directory_id if directory_id >= RESERVED_DIRECTORIES_END else None,
            )
            truncate_unknown_epochs(log, local.partition.leader_epoch)
        except CorruptLogError as error:
            logger.error("cannot serve %s: %s; requesting another leader", topic_partition, error)
            self._directories.assign(local.topic_id, topic_partition.partition, DIRECTORY_LOST)
            return None
        except StorageError as error:
            logger.error("cannot open %s: %s; its clients get KAFKA_STORAGE_ERROR", topic_partition, error)
            return None
        return Partition(
            topic_partition=topic_partition,
            topic_id=local.topic_id,
            node_id=self._node_id,
            log=log,
            isr=PartitionIsr(
                topic_partition=topic_partition,
                topic_id=local.topic_id,
                node_id=self._node_id,
                brokers=self._brokers,
                lag_time_max_ms=self._config().lag_time_max_ms,
                fetch_age_max_ms=self._config().fetch_age_max_ms,
            ),
        )

    def compare_directory(self, partition: Partition, local: LocalReplica) -> None:
        """Report the log's directory to the controller when the metadata has another one."""
        directory_id = self._logs.directory_ids().get(partition.log.parent_directory)
        index = partition.topic_partition.partition
        if partition.corrupt_offset is not None and partition.is_leader:
            return  # the directory stays reported as lost until another replica leads
        if self._is_reported_by_move(partition.topic_partition):
            return
        if directory_id is None or directory_id == local.partition.directory_of(self._node_id):
            self._directories.cancel(local.topic_id, index)
        else:
            self._directories.assign(local.topic_id, index, directory_id)

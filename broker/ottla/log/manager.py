"""All logs of a node: several log directories, each locked, identified, checkpointed, and able to fail alone.

Source: LogManager, MetaPropertiesEnsemble and LogDirFailureChannel of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.errors import StorageError
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.ports import Clock, Disk, Random
from ottla.types import NodeId, TopicPartition, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """How often the manager works; the defaults are Kafka 4.3's.

    Attributes:
        retention_check_interval_ms: log.retention.check.interval.ms.
        flush_check_interval_ms: log.flush.scheduler.interval.ms.
        recovery_point_checkpoint_interval_ms: log.flush.offset.checkpoint.interval.ms.
        log_start_offset_checkpoint_interval_ms: log.flush.start.offset.checkpoint.interval.ms.
        high_watermark_checkpoint_interval_ms: replica.high.watermark.checkpoint.interval.ms.
        producer_id_expiration_ms: producer.id.expiration.ms.
        producer_id_expiration_check_interval_ms: producer.id.expiration.check.interval.ms.
    """

    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = (1 << 63) - 1
    recovery_point_checkpoint_interval_ms: int = 60_000
    log_start_offset_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000


class LogManager:
    """See the module.

    Args of the constructor:
        log_directories: paths as configured (log.dirs), in order.
        cluster_id: expected in every meta.properties.
        on_directory_failure: called once per failed directory with its path and the error, after its logs have been
            taken out of the manager; the node answers KAFKA_STORAGE_ERROR for them and tells the controller.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        log_directories: Sequence[str],
        node_id: NodeId,
        cluster_id: str,
        config: LogManagerConfig | None = None,
        on_directory_failure: Callable[[str, StorageError], None] | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self, *, config_of_topic: Callable[[str], LogConfig]) -> None:
        """Lock the directories, check their meta.properties, load every log.

        Raises:
            ConfigurationError: a directory belongs to another node or cluster, or is not formatted.
            StorageError: every directory failed.
        """
        raise NotImplementedError

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        raise NotImplementedError

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid,
        config: LogConfig,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """Return the log, making it in ``directory_id`` or else in the directory with the fewest logs.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID when the log on disk belongs to another topic of that name.
            StorageError: the directory is offline or the disk refused.
        """
        raise NotImplementedError

    def logs(self) -> Iterator[PartitionLog]:
        """Every online log, by topic and partition."""
        raise NotImplementedError

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename the log's directory to ``<topic>-<partition>.<id>-delete``; `tick` removes it after the file delay."""
        raise NotImplementedError

    def move_aside_strays(self, is_stray: Callable[[PartitionLog], bool]) -> list[TopicPartition]:
        """Rename the directories of logs that the metadata no longer gives to this node to ``-stray`` (KIP-866)."""
        raise NotImplementedError

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Hand the topic's new configuration to its logs."""
        raise NotImplementedError

    def directory_ids(self) -> Mapping[str, Uuid]:
        """directory.id of each online directory, by path: what a broker registration carries."""
        raise NotImplementedError

    def offline_directories(self) -> Sequence[str]:
        raise NotImplementedError

    def previous_broker_epoch(self) -> int:
        """The epoch in the clean-shutdown markers, -1 when any directory was not closed cleanly (KIP-966)."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Do what is due: retention, flushes, checkpoints, removal of deleted files and directories."""
        raise NotImplementedError

    def close(self, *, broker_epoch: int = -1) -> None:
        """Close every log, write the checkpoints and the clean-shutdown markers, release the locks."""
        raise NotImplementedError

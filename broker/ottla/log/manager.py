"""All logs of a node: several log directories, each locked, identified, checkpointed, and able to fail alone.

`LogMaintenance` does the periodic work: retention, checkpoints, removal of deleted files.

Source: LogManager, MetaPropertiesEnsemble and LogDirFailureChannel of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from ottla.errors import ShortageError, StorageError
from ottla.log.config import LogConfig
from ottla.log.directory_choice import DirectoryChoice
from ottla.log.file_names import DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, marked_directory_name
from ottla.log.future_logs import FutureLogs
from ottla.log.log_directory import UNKNOWN_BROKER_EPOCH, LogDirectory
from ottla.log.maintenance import LogMaintenance, LogManagerConfig
from ottla.log.meta_properties import MetaProperties, read_meta_properties, verify_meta_properties
from ottla.log.open_files import OpenFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import CorruptLogError
from ottla.ports import BackgroundTasks, Clock, Disk, DiskSpace, Random
from ottla.types import NodeId, TopicPartition, Uuid

logger = logging.getLogger(__name__)


class LogManager:
    """See the module.

    Args of the constructor:
        log_directories: paths as configured (log.dirs), in order.
        node_id: expected in every meta.properties.
        cluster_id: likewise; None takes the first directory's.
        on_directory_failure: called once per failed directory with its path and the error, after its logs have been
            removed from the manager; the node returns KAFKA_STORAGE_ERROR for them and reports the directory to the
            controller. `lost_partitions` returns them.
        background: where logs are compacted; None to compact none.

    Attributes:
        maintenance: the periodic work; the node calls its ``tick``.
        choice: where new logs are created.
        futures: copies of logs that are being moved to another directory.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        log_directories: Sequence[str],
        node_id: NodeId,
        cluster_id: str | None,
        config: LogManagerConfig | None = None,
        on_directory_failure: Callable[[str, StorageError], None] | None = None,
        background: BackgroundTasks | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._node_id = node_id
        self._cluster_id = cluster_id
        config = config or LogManagerConfig()
        self._on_directory_failure = on_directory_failure
        self._directories = {path: LogDirectory(disk, path) for path in log_directories}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.maintenance = LogMaintenance(
            config,
            disk=disk,
            clock=clock,
            logs=self._logs,
            sorted_logs=self.logs,
            online_directories=self._online,
            fail=self._fail,
            background=background,
        )
        # Shared by a directory's thousands of logs.
        self._on_storage_error = {path: partial(self._fail, each) for path, each in self._directories.items()}
        self._on_truncated = {
            path: partial(self.maintenance.checkpoint_truncation, each) for path, each in self._directories.items()
        }
        self._open_files = OpenFiles(config.open_files_max)
        self._lost: dict[str, tuple[TopicPartition, ...]] = {}
        self._lost_from: dict[TopicPartition, tuple[str, Uuid | None]] = {}
        """The directory and the topic id of each lost log."""
        self._duplicates: dict[TopicPartition, list[PartitionLog]] = {}
        """Logs that exist in several directories: none is used until `get_or_create` receives the directory id."""
        self._corrupt: dict[TopicPartition, tuple[LogDirectory, CorruptLogError]] = {}
        self.choice = DirectoryChoice(self._directories)
        self.futures = FutureLogs(
            disk=disk,
            clock=clock,
            random=random,
            directories=self._directories,
            maintenance=self.maintenance,
            open_log=self._open_at,
            fail=self._fail,
        )

    # --- starting

    def start(self, *, config_of_topic: Callable[[str], LogConfig]) -> None:
        """Lock the directories, check their meta.properties, load every log.

        Raises:
            ConfigurationError: a directory belongs to another node or cluster, is not formatted or in use.
            StorageError: every directory failed.
        """
        for directory in self._directories.values():
            self._attempt(directory, directory.lock)
        self._verify()
        for directory in self._online():
            self._attempt(directory, partial(self._load, directory, config_of_topic))
        self._require_online_directory()

    def _verify(self) -> None:
        found: dict[str, MetaProperties | None] = {}
        for directory in self._online():
            self._attempt(directory, partial(self._identify, directory, found))
        self._require_online_directory()
        verify_meta_properties(found, node_id=self._node_id, cluster_id=self._cluster_id)

    def _identify(self, directory: LogDirectory, found: dict[str, MetaProperties | None]) -> None:
        properties = found[directory.path] = read_meta_properties(self._disk, directory.path)
        if properties is not None:
            directory.directory_id = properties.directory_id

    def _require_online_directory(self) -> None:
        if not any(True for _ in self._online()):
            reasons = "; ".join(f"{path}: {directory.failure}" for path, directory in self._directories.items())
            raise StorageError(f"Shutdown node because all log dirs have failed ({reasons})")

    def _load(self, directory: LogDirectory, config_of_topic: Callable[[str], LogConfig]) -> None:
        directory.open()
        partitions, futures, deleted = directory.find_logs()
        for name in deleted:
            self.maintenance.remove_later(directory, f"{directory.path}/{name}", self._clock.monotonic_ms())
        try:
            self._load_logs(directory, partitions, config_of_topic)
            self.futures.load(directory, futures, config_of_topic)
            directory.lower_recovery_points()
        except StorageError:
            for partition in partitions:
                self._lost_from.setdefault(partition, (directory.path, None))
            raise

    def _load_logs(
        self,
        directory: LogDirectory,
        partitions: Iterable[TopicPartition],
        config_of_topic: Callable[[str], LogConfig],
    ) -> None:
        cached_config = cache(config_of_topic)
        for partition in partitions:
            config = cached_config(partition.topic)
            try:
                log = self._open_log(directory, partition, config, was_clean_shutdown=directory.was_clean_shutdown)
            except CorruptLogError as error:
                logger.error("%s/%s cannot be used: %s", directory.path, partition, error)
                self._corrupt[partition] = (directory, error)
                continue
            log.update_high_watermark(directory.high_watermarks.get(partition, 0))
            log.first_dirty_offset = directory.first_dirty_offsets.get(partition, 0)
            if log.truncated_bytes:
                logger.warning(
                    "%s: recovery truncated %d bytes of torn batches at offset %d",
                    log.directory,
                    log.truncated_bytes,
                    log.log_end_offset,
                )

    def _open_log(
        self, directory: LogDirectory, partition: TopicPartition, config: LogConfig, *, was_clean_shutdown: bool
    ) -> PartitionLog:
        path = f"{directory.path}/{partition}"
        config = self._with_jitter(config)
        log = self._open_at(directory, path, partition, config, is_clean=was_clean_shutdown)
        directory.logs[partition] = log
        other = self._logs.pop(partition, None)
        if other is not None:
            self._duplicates[partition] = [other]
        if partition in self._duplicates:
            self._duplicates[partition].append(log)
        else:
            self._logs[partition] = log
        return log

    def _open_at(
        self, directory: LogDirectory, path: str, partition: TopicPartition, config: LogConfig, *, is_clean: bool
    ) -> PartitionLog:
        return PartitionLog.open(
            disk=self._disk,
            directory=path,
            topic_partition=partition,
            config=config,
            clock=self._clock,
            recovery_point=directory.recovery_points.get(partition, 0),
            log_start_offset=directory.log_start_offsets.get(partition, 0),
            was_clean_shutdown=is_clean,
            producer_id_expiration_ms=self.maintenance.producer_id_expiration_ms,
            may_have_gaps=partition in directory.first_dirty_offsets,
            open_files=self._open_files,
            on_storage_error=self._on_storage_error[directory.path],
            on_truncated=self._on_truncated[directory.path],
        )

    def _with_jitter(self, config: LogConfig) -> LogConfig:
        """Draw this log's own jitter below the topic's segment.jitter.ms."""
        bound_ms = min(config.segment_jitter_ms, config.segment_ms)
        return replace(config, segment_jitter_ms=self._random.randrange(bound_ms)) if bound_ms > 0 else config

    # --- logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def has_any_of(self, topic_partition: TopicPartition) -> bool:
        """Return whether there is a log or a copy of it, or was in a failed directory: usable or not, one or more."""
        known: tuple[Container[TopicPartition], ...] = (self._logs, self._duplicates, self._corrupt, self._lost_from)
        return any(topic_partition in logs for logs in known) or self.futures.get(topic_partition) is not None

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid,
        config: LogConfig,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """Return the log; create it in ``directory_id`` or else in the directory with the fewest logs.

        ``directory_id`` is None while the directory is not assigned.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID when the log on disk belongs to another topic of that name.
            StorageError: the directory is offline, or the one that had the log when it failed; an I/O error; or
                (CorruptLogError) the existing log cannot be read: after `drop_corrupt` a new one can be created.
        """
        if topic_partition in self._corrupt:
            raise self._corrupt[topic_partition][1]
        if topic_partition in self._lost_from:
            path, lost_id = self._lost_from[topic_partition]
            if lost_id in (None, topic_id):
                # As with HostedPartition.Offline: a second log would be a duplicate when the directory is back.
                raise StorageError(f"{path}, which holds {topic_partition}, is offline")
        if topic_partition in self._duplicates:
            self._resolve_duplicates(topic_partition, topic_id, directory_id)
        log = self._logs.get(topic_partition)
        if log is None:
            log = self.futures.recover_abandoned(topic_partition, topic_id=topic_id, directory_id=directory_id)
            if log is not None:
                log.update_config(self._with_jitter(config))
                self._logs[topic_partition] = log
        else:
            self.choice.require_online(topic_partition, directory_id)
        if log is None:
            directory = self.choice.choose(topic_partition, directory_id)
            directory.drop_checkpoints_of(topic_partition)
            try:
                log = self._open_log(directory, topic_partition, config, was_clean_shutdown=True)
            except StorageError as error:
                self._fail(directory, error)
                raise
            self.maintenance.checkpoint_created(directory, log)
        log.assign_topic_id(topic_id)
        return log

    def _resolve_duplicates(self, topic_partition: TopicPartition, topic_id: Uuid, directory_id: Uuid | None) -> None:
        """Use one of several logs: the one in the directory of the metadata, else the one with the furthest log end.

        The others are renamed to ``-stray``. (Kafka's LogManager fails to start.)
        """

        def rank(log: PartitionLog) -> tuple[bool, bool, int, int]:
            is_named = self._directories[log.parent_directory].directory_id == directory_id
            return log.topic_id in (None, topic_id), is_named, log.latest_epoch, log.log_end_offset

        logs = sorted(self._duplicates.pop(topic_partition), key=rank)
        kept = logs.pop() if logs and rank(logs[-1])[0] else None
        if kept is not None:
            self._logs[topic_partition] = kept
        for log in logs:
            found = log.directory
            _, path = self._move_aside(log, STRAY_DIRECTORY_SUFFIX)
            logger.warning(
                "Duplicate log directories found: %s is not used (%s) and kept in %s",
                found,
                f"{kept.directory} is" if kept else "it is of another topic",
                path,
            )
            log.release()

    def logs(self) -> Iterator[PartitionLog]:
        """Yield every online log, by topic and partition; logs that are deleted meanwhile are skipped."""
        return (log for partition in sorted(self._logs) if (log := self._logs.get(partition)) is not None)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Rename the log's directory to ``<topic>-<partition>.<id>-delete``; `tick` removes it after the file delay.

        Raises:
            StorageError: an I/O error.
        """
        self.futures.remove(topic_partition)
        self.futures.delete_replaced(topic_partition)
        log = self._logs.get(topic_partition)
        if log is None:
            return
        directory, path = self._move_aside(log, DELETE_DIRECTORY_SUFFIX)
        log.release()
        due_ms = self._clock.monotonic_ms() + log.config.file_delete_delay_ms
        self.maintenance.remove_later(directory, path, due_ms)

    def drop_corrupt(self, topic_partition: TopicPartition) -> bool:
        """Delete a log that could not be read, as `delete` does; return whether there was one.

        Raises:
            StorageError: an I/O error.
        """
        corrupt = self._corrupt.pop(topic_partition, None)
        if corrupt is None:
            return False
        directory, _ = corrupt
        name = marked_directory_name(topic_partition, self._random.uuid().hex(), DELETE_DIRECTORY_SUFFIX)
        path = f"{directory.path}/{name}"
        try:
            self._disk.rename(f"{directory.path}/{topic_partition}", path)
        except OSError as error:
            failure = StorageError(f"cannot rename {directory.path}/{topic_partition} to {path}: {error}")
            self._fail(directory, failure)
            raise failure from error
        self.maintenance.remove_later(directory, path, self._clock.monotonic_ms())
        return True

    def move_aside_strays(self, is_stray: Callable[[PartitionLog], bool]) -> list[TopicPartition]:
        """Rename the directories of logs that the metadata no longer gives to this node to ``-stray`` (KIP-866)."""
        duplicates = [log for logs in self._duplicates.values() for log in logs]
        strays = [log for log in [*self.logs(), *duplicates] if is_stray(log)]
        for log in strays:
            _, path = self._move_aside(log, STRAY_DIRECTORY_SUFFIX)
            logger.warning("%s is no partition of this node; its log is kept in %s", log.topic_partition, path)
            log.release()
            self._duplicates.pop(log.topic_partition, None)
        return [log.topic_partition for log in strays]

    def _move_aside(self, log: PartitionLog, suffix: str) -> tuple[LogDirectory, str]:
        directory = self._directories[log.parent_directory]
        unique = self._random.uuid().hex()
        path = f"{directory.path}/{marked_directory_name(log.topic_partition, unique, suffix)}"
        log.rename_directory(path)
        del directory.logs[log.topic_partition]
        if self._logs.get(log.topic_partition) is log:
            del self._logs[log.topic_partition]
        return directory, path

    def update_config(self, topic: str, config: LogConfig) -> None:
        """Apply the topic's new configuration to its logs."""
        for partition, log in self._logs.items():
            if partition.topic == topic:
                log.update_config(self._with_jitter(config))
        self.futures.update_config(topic, config)
        for directory in self._online() if config.is_compacted else ():
            self.maintenance.checkpoint_first_dirty_offsets(directory)

    # --- directories

    def directory_ids(self) -> Mapping[str, Uuid]:
        """directory.id of each online directory, by path: what a broker registration carries."""
        return {
            directory.path: directory.directory_id for directory in self._online() if directory.directory_id is not None
        }

    def offline_directory_ids(self) -> list[Uuid]:
        """directory.id of each failed directory whose id was read before: for the broker's heartbeats."""
        failed = [directory for directory in self._directories.values() if directory.failure is not None]
        return sorted(directory.directory_id for directory in failed if directory.directory_id is not None)

    def offline_directories(self) -> Sequence[str]:
        return [path for path, directory in self._directories.items() if directory.failure is not None]

    def lost_partitions(self, path: str) -> tuple[TopicPartition, ...]:
        """The partitions whose logs were in a directory when it failed."""
        return self._lost.get(path, ())

    def space_of(self, path: str) -> DiskSpace:
        """Return size and usable bytes of the file system below a log directory (KIP-827).

        Raises:
            StorageError: an I/O error; the directory is offline now.
        """
        try:
            return self._directories[path].read_space()
        except StorageError as error:
            self._fail(self._directories[path], error)
            raise

    def previous_broker_epoch(self) -> int:
        """The epoch in the clean-shutdown markers, -1 when any directory was not closed cleanly (KIP-966)."""
        epochs = {directory.previous_broker_epoch for directory in self._directories.values()}
        return epochs.pop() if len(epochs) == 1 else UNKNOWN_BROKER_EPOCH

    def _online(self) -> Iterator[LogDirectory]:
        return iter([directory for directory in self._directories.values() if directory.failure is None])

    def _attempt(self, directory: LogDirectory, action: Callable[[], None]) -> None:
        """Run ``action`` on one directory; a failure takes only this directory offline."""
        try:
            action()
        except StorageError as error:
            self._fail(directory, error)

    def _fail(self, directory: LogDirectory, error: StorageError) -> None:
        """Take a directory offline, with its logs, until the node is restarted."""
        if directory.failure is not None:
            return
        directory.failure = error
        self._lost[directory.path] = tuple(sorted(directory.logs))
        for partition, log in directory.logs.items():
            self._logs.pop(partition, None)
            self._lost_from[partition] = (directory.path, log.topic_id)
            if partition in self._duplicates:
                self._duplicates[partition].remove(log)
            log.failure = log.failure or error
            log.release()
        directory.logs = {}
        self.futures.on_directory_failure(directory, error)
        logger.error(
            "log directory %s is offline with %d logs: %s", directory.path, len(self._lost[directory.path]), error
        )
        if self._on_directory_failure is not None:
            self._on_directory_failure(directory.path, error)

    # --- closing

    def close(self, *, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close every log, write the checkpoints and the clean-shutdown markers, release the locks.

        A directory that fails meanwhile gets no marker, so that the next start recovers it.
        """
        self.futures.close()
        for directory in self._online():
            try:
                self._attempt(directory, partial(directory.close, broker_epoch))
            except ShortageError as error:
                logger.error("%s is not closed cleanly and will be recovered: %s", directory.path, error)
        for directory in self._directories.values():
            directory.unlock()
        self._logs.clear()

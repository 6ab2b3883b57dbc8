"""`FutureLogs`: the unfinished copies of logs that are being moved to another log directory, and what they replace.

A copy is in ``<topic>-<partition>.<unique>-future``. When it is complete, `promote` puts it in the place of the log:

1. The copy's directory is renamed to ``<topic>-<partition>``, and the `PartitionLog` continues with its files, in one
   step on the loop, in which both logs end at the same offset.
2. The new name is synced, off the loop.
3. Only then the replaced directory is renamed to ``-delete``. JVM Kafka syncs within the renaming, which on one loop
   would delay every other partition.

A crash after 1 leaves two logs, of which the manager takes the one that the metadata names: the controller has recorded
the new directory before. A crash before 1 leaves the copy, which is continued; so does a power cut that loses the new
name, because the replaced directory still has its own.

Source: LogManager.replaceCurrentWithFutureLog and UnifiedLog.renameDir of Apache Kafka 4.3; KIP-113, KIP-858.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from ottla.errors import StorageError, disk_error
from ottla.log.config import LogConfig
from ottla.log.file_names import (
    DELETE_DIRECTORY_SUFFIX,
    DIRECTORY_NAME_LENGTH_MAX,
    FUTURE_DIRECTORY_SUFFIX,
    marked_directory_name,
)
from ottla.log.log_directory import LogDirectory
from ottla.log.maintenance import LogMaintenance
from ottla.log.partition_log import PartitionLog
from ottla.log.recovery import CorruptLogError
from ottla.ports import Clock, Disk, File, Random
from ottla.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

_UNIQUE_LENGTH = 32


class OpenLog(Protocol):
    def __call__(
        self,
        directory: LogDirectory,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        *,
        is_clean: bool,
    ) -> PartitionLog:
        """Open the log in ``path``, which is in ``directory``."""
        ...


class _Replaced(NamedTuple):
    """Files that a promoted copy has replaced: still named as the log, until the copy's name is synced."""

    log: PartitionLog
    directory: LogDirectory
    promoted_to: LogDirectory


def copy_config(config: LogConfig) -> LogConfig:
    """Return the configuration of a copy: only the log start deletes its segments, which no client reads."""
    return replace(config, retention_ms=-1, retention_bytes=-1, file_delete_delay_ms=0)


def is_name_too_long(topic_partition: TopicPartition) -> bool:
    """Return whether the directory of a copy would have a longer name than file systems allow."""
    length = len(str(topic_partition)) + 1 + _UNIQUE_LENGTH + len(FUTURE_DIRECTORY_SUFFIX)
    return length > DIRECTORY_NAME_LENGTH_MAX


class FutureLogs:
    """See the module.

    Args of the constructor:
        directories: all of the node, by path.
        maintenance: removes deleted directories, and writes checkpoints.
        open_log: opens a log with the callbacks of its directory.
        fail: takes a directory offline.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        directories: Mapping[str, LogDirectory],
        maintenance: LogMaintenance,
        open_log: OpenLog,
        fail: Callable[[LogDirectory, StorageError], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._random = random
        self._directories = directories
        self._maintenance = maintenance
        self._open_log = open_log
        self._fail = fail
        self._replaced: dict[TopicPartition, _Replaced] = {}

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        """Return the directory that has a copy of the partition."""
        return next((each for each in self._directories.values() if topic_partition in each.futures), None)

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        directory = self.directory_of(topic_partition)
        return None if directory is None else directory.futures[topic_partition]

    def partitions(self) -> list[TopicPartition]:
        return sorted(partition for directory in self._directories.values() for partition in directory.futures)

    # --- creation

    def load(
        self, directory: LogDirectory, names: Mapping[str, TopicPartition], config_of_topic: Callable[[str], LogConfig]
    ) -> None:
        """Open the copies that the last process left in ``directory``; a second one of a partition is deleted.

        Raises:
            StorageError: an I/O error.
        """
        for name, partition in names.items():
            path = f"{directory.path}/{name}"
            if self.directory_of(partition) is not None:
                self._maintenance.remove_later(directory, path, self._clock.monotonic_ms())
                continue
            config = copy_config(config_of_topic(partition.topic))
            try:
                log = self._open_log(directory, path, partition, config, is_clean=directory.was_clean_shutdown)
            except CorruptLogError as error:
                logger.error("%s cannot be used, and %s is copied again: %s", path, partition, error)
                self._maintenance.remove_later(directory, path, self._clock.monotonic_ms())
                continue
            directory.futures[partition] = log

    def create(self, log: PartitionLog, path: str) -> PartitionLog:
        """Create an empty copy of ``log`` in the log directory ``path``.

        Raises:
            StorageError: an I/O error; the directory is offline now.
        """
        directory = self._directories[path]
        partition = log.topic_partition
        directory.drop_checkpoints_of(partition)
        name = marked_directory_name(partition, self._random.uuid().hex(), FUTURE_DIRECTORY_SUFFIX)
        try:
            future = self._open_log(directory, f"{path}/{name}", partition, copy_config(log.config), is_clean=True)
        except StorageError as error:
            self._fail(directory, error)
            raise
        if log.topic_id is not None:
            future.assign_topic_id(log.topic_id)
        directory.futures[partition] = future
        directory.compare_recovery_point(future)
        return future

    def checkpoint(self, future: PartitionLog) -> None:
        """Write the checkpoints that `is_ready` waits for."""
        directory = self.directory_of(future.topic_partition)
        assert directory is not None, "the copy was removed"
        self._maintenance.checkpoint_recovery_points(directory)
        if future.may_have_gaps:
            self._maintenance.checkpoint_first_dirty_offsets(directory)

    def is_ready(self, future: PartitionLog) -> bool:
        """Return whether recovery would treat the copy correctly: see `LogDirectory.is_ready_for_copy`."""
        directory = self.directory_of(future.topic_partition)
        return directory is not None and directory.is_ready_for_copy(future)

    def recover_abandoned(
        self, topic_partition: TopicPartition, *, topic_id: Uuid, directory_id: Uuid | None
    ) -> PartitionLog | None:
        """Use a copy as the log, which is gone, if the metadata names the copy's directory; return it.

        The copy was complete when the controller was notified of its directory. No copy is used while a directory is
        offline, which may have the log. Source: LogManager.recoverAbandonedFutureLogs of Apache Kafka 4.3.

        Raises:
            StorageError: the copy's directory cannot be renamed; it is offline now.
        """
        directory = self.directory_of(topic_partition)
        if directory is None or directory_id is None or directory.directory_id != directory_id:
            return None
        log = directory.futures[topic_partition]
        if log.topic_id != topic_id or any(each.failure is not None for each in self._directories.values()):
            return None
        logger.warning("%s has no log: its copy in %s is used, as in the metadata", topic_partition, log.directory)
        log.rename_directory(f"{directory.path}/{topic_partition}")
        try:
            self._disk.sync_directory(directory.path)
        except OSError as error:
            failure = StorageError(f"cannot sync {directory.path}: {error}")
            self._fail(directory, failure)
            raise failure from error
        directory.logs[topic_partition] = directory.futures.pop(topic_partition)
        self._maintenance.checkpoint_first_dirty_offsets(directory)
        return log

    # --- the end of a move

    def can_promote(self, topic_partition: TopicPartition) -> bool:
        """Return whether the name of the partition's log is free: an earlier move to another directory has ended."""
        return topic_partition not in self._replaced

    def replaced(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the replaced files of a log whose new name is not synced yet."""
        found = self._replaced.get(topic_partition)
        return None if found is None else found.log

    def promote(self, log: PartitionLog) -> None:
        """Let ``log`` continue with the files of its complete copy, and delete its old ones.

        Raises:
            StorageError: the copy's directory cannot be renamed; it is offline now, and ``log`` is as before.
            ShortageError: no descriptor is free; nothing has changed.
        """
        partition = log.topic_partition
        target = self.directory_of(partition)
        assert target is not None, "there is no copy"
        assert self.can_promote(partition), "the replaced directory still has its name"
        source = self._directories[log.parent_directory]
        future = target.futures[partition]
        names = self._open_to_sync(target)
        try:
            future.rename_directory(f"{target.path}/{partition}")
        except StorageError:
            names.close()
            raise
        log.exchange_files(future)
        future.update_config(log.config)  # it has the replaced files now, which clients may be reading
        del target.futures[partition], source.logs[partition]
        target.logs[partition] = log
        self._replaced[partition] = _Replaced(future, source, target)
        self._maintenance.checkpoint_moved(source, target)
        self._disk.sync_later([names], lambda error: self._on_name_synced(partition, future, target, error))

    def _open_to_sync(self, directory: LogDirectory) -> File:
        try:
            return self._disk.open(directory.path, read_only=True)
        except OSError as error:
            failure = disk_error(f"cannot open {directory.path} to sync it", error)
            if isinstance(failure, StorageError):
                self._fail(directory, failure)
            raise failure from error

    def _on_name_synced(
        self, partition: TopicPartition, replaced: PartitionLog, target: LogDirectory, error: OSError | None
    ) -> None:
        found = self._replaced.get(partition)
        if found is None or found.log is not replaced:
            return
        if error is not None:
            self._fail(target, StorageError(f"cannot sync {target.path}: {error}"))
            return
        self.delete_replaced(partition)

    def delete_replaced(self, partition: TopicPartition) -> None:
        """Delete what a copy has replaced: the copy's name has been synced, or the log itself is being deleted.

        Before that, a power cut may lose the copy's name: no directory would have the log's name then.
        """
        found = self._replaced.pop(partition, None)
        if found is not None:
            with suppress(StorageError):  # its directory is offline then, and the next start finds two logs
                self._delete(found.directory, found.log, found.log.config.file_delete_delay_ms)

    def _delete(self, directory: LogDirectory, log: PartitionLog, delay_ms: int) -> None:
        name = marked_directory_name(log.topic_partition, self._random.uuid().hex(), DELETE_DIRECTORY_SUFFIX)
        path = f"{directory.path}/{name}"
        try:
            log.rename_directory(path)
        finally:
            log.release()
        self._maintenance.remove_later(directory, path, self._clock.monotonic_ms() + delay_ms)

    # --- other ends

    def remove(self, topic_partition: TopicPartition) -> None:
        """Delete the copy of a partition, if there is one.

        Raises:
            StorageError: the directory cannot be renamed; it is offline now.
        """
        directory = self.directory_of(topic_partition)
        if directory is not None:
            self._delete(directory, directory.futures.pop(topic_partition), 0)

    def release(self, topic_partition: TopicPartition) -> None:
        """Close the copy of a partition whose log has failed; the next process continues with it."""
        directory = self.directory_of(topic_partition)
        if directory is not None:
            directory.futures.pop(topic_partition).release()

    def update_config(self, topic: str, config: LogConfig) -> None:
        for directory in self._directories.values():
            for partition, log in directory.futures.items():
                if partition.topic == topic:
                    log.update_config(copy_config(config))

    def on_directory_failure(self, directory: LogDirectory, error: StorageError) -> None:
        """Drop the copies in a directory that has failed, and drop what lies there under a log's name."""
        for future in directory.futures.values():
            future.failure = future.failure or error
            future.release()
        directory.futures = {}
        for partition, replaced in list(self._replaced.items()):
            if directory in (replaced.directory, replaced.promoted_to):
                replaced.log.release()
                del self._replaced[partition]

    def close(self) -> None:
        """Delete what copies have replaced: the next start must find one log of each partition."""
        for partition, replaced in list(self._replaced.items()):
            try:
                self._disk.sync_directory(replaced.promoted_to.path)
            except OSError as error:
                self._fail(replaced.promoted_to, StorageError(f"cannot sync {replaced.promoted_to.path}: {error}"))
            else:
                self.delete_replaced(partition)

"""`DirectoryChoice`: the log directory in which a new log is created, and the directories that are cordoned.

An administrator may choose it before the log exists: AlterReplicaLogDirs for a partition that is not here yet. JVM
Kafka remembers any number of such choices; here the oldest are dropped.

Source: LogManager.getOrCreateLog and maybeUpdatePreferredLogDir of Apache Kafka 4.3; KIP-113, KIP-858, KIP-1066.
"""

from collections.abc import Iterable, Mapping

from ottla.errors import StorageError
from ottla.log.log_directory import LogDirectory
from ottla.types import TopicPartition, Uuid

PREFERENCES_MAX = 10_000


class DirectoryChoice:
    """See the module. ``directories`` are all of the node, by path."""

    def __init__(self, directories: Mapping[str, LogDirectory]) -> None:
        self._directories = directories
        self._cordoned: frozenset[str] = frozenset()
        self._preferred: dict[TopicPartition, str] = {}

    def cordon(self, paths: Iterable[str]) -> None:
        """Put no new log into the directories ``paths`` while there are others."""
        self._cordoned = frozenset(paths)

    def is_configured(self, path: str) -> bool:
        """Return whether ``path`` is one of the node's log directories, as log.dirs spells it."""
        return path in self._directories

    def is_cordoned(self, path: str) -> bool:
        return path in self._cordoned

    def cordoned_directory_ids(self) -> list[Uuid]:
        """directory.id of each online directory that is cordoned: for the broker's heartbeats."""
        cordoned = (directory for path, directory in self._directories.items() if path in self._cordoned)
        return sorted(each.directory_id for each in cordoned if each.failure is None and each.directory_id is not None)

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Create the partition's log, which does not exist yet, in ``path``, whatever the metadata says."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = path
        if len(self._preferred) > PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def require_online(self, topic_partition: TopicPartition, directory_id: Uuid | None) -> None:
        """Require that the directory that the metadata names is not an offline one: a log found elsewhere is older.

        That is so if the log was moved, and the process ended before the files that it has left were deleted.

        Raises:
            StorageError: it is offline, or may be one that has been offline since the start.
        """
        directories = self._directories.values()
        if directory_id is None or any(each.directory_id == directory_id and not each.failure for each in directories):
            return
        for each in directories:
            if each.failure is not None and each.directory_id in (None, directory_id):
                raise StorageError(f"{each.path}, which holds or may hold {topic_partition}, is offline")

    def choose(self, topic_partition: TopicPartition, directory_id: Uuid | None) -> LogDirectory:
        """Return the directory for a new log; ``directory_id`` is None while the metadata names none.

        Raises:
            StorageError: that directory is offline, or may be the one that holds the log already.
        """
        offline = [directory for directory in self._directories.values() if directory.failure is not None]
        if offline and any(topic_partition in directory.futures for directory in self._directories.values()):
            # It was being moved: a log created here would be empty, and its records would seem lost.
            raise StorageError(f"{offline[0].path}, which may hold {topic_partition}, is offline")
        preferred = self._preferred.pop(topic_partition, None)
        if preferred is not None and self._directories[preferred].failure is None:
            return self._directories[preferred]
        for directory in self._directories.values():
            if directory_id is not None and directory.directory_id == directory_id:
                if directory.failure is not None:
                    raise StorageError(f"{directory.path}, which is to hold {topic_partition}, is offline")
                return directory
        for directory in offline:
            if directory_id is not None and directory.directory_id is None:
                # It may be the wanted one: a log created elsewhere would be empty, and its records would seem lost.
                raise StorageError(f"{directory.path}, which may hold {topic_partition}, has been offline all the time")
        online = [directory for directory in self._directories.values() if directory.failure is None]
        if not online:
            raise StorageError(f"cannot create the log of {topic_partition}: all log directories are offline")
        open_ones = [directory for directory in online if directory.path not in self._cordoned]
        return min(open_ones or online, key=lambda directory: len(directory.logs))

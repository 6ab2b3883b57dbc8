"""`LeaderSyncs`: group commit of the partitions that this node leads.

Where ottla.acks.fsync or flush.messages ask for it, what a leader appends counts only once it is on the disk. One sync
of a partition is under way at a time; it covers everything appended before it started, and what was appended meanwhile
shares the next one. Syncs run off the loop: the responses wait, the loop does not.
"""

from collections.abc import Callable

from ottla.errors import StorageError
from ottla.replication.partition import Partition
from ottla.types import TopicPartition


class LeaderSyncs:
    """See the module.

    Args of the constructor:
        synced: called with a partition of which more is on the disk than before.
    """

    def __init__(self, synced: Callable[[Partition], object]) -> None:
        self._synced = synced
        self._under_way: dict[TopicPartition, Partition] = {}

    def start_if_due(self, partition: Partition) -> None:
        """Bring to the disk what may not be confirmed before; nothing while a sync of the partition is under way.

        Raises:
            StorageError: a file could not even be opened; the log directory is offline.
        """
        topic_partition = partition.topic_partition
        log = partition.log
        if log.confirmable_offset >= log.log_end_offset or self._under_way.get(topic_partition) is partition:
            return
        self._under_way[topic_partition] = partition

        def done(error: StorageError | None) -> None:
            if self._under_way.get(topic_partition) is partition:
                del self._under_way[topic_partition]
            if error is None and log.failure is None:
                self._synced(partition)

        try:
            log.flush_later(done)
        except StorageError:
            del self._under_way[topic_partition]
            raise

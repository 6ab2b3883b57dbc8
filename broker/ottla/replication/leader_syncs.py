"""`LeaderSyncs`: group commit of the partitions that this node leads.

With ottla.acks.fsync or flush.messages, a leader's append counts only once it is on the disk. One sync of a partition
is under way at a time; it covers everything appended before it started, and appends during it share the next one. Syncs
run off the loop: the responses wait, the loop does not.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.errors import KafkaError, ShortageError, StorageError
from ottla.log_lines import LineLimit
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.types import NEVER_MS, TopicPartition

_RETRY_MS: Final = 100

logger = logging.getLogger(__name__)


class LeaderSyncs:
    """See the module. ``due_ms`` is when `tick` has work.

    Args of the constructor:
        clock: to retry syncs that a shortage has kept from starting.
        synced: called with a partition of which more is on the disk than before.
    """

    def __init__(self, clock: Clock, synced: Callable[[Partition], object]) -> None:
        self._clock = clock
        self._synced = synced
        self._under_way: dict[TopicPartition, Partition] = {}
        self._postponed: dict[TopicPartition, Partition] = {}
        self._shortage_lines = LineLimit(clock)
        self.due_ms = NEVER_MS

    def start_if_due(self, partition: Partition) -> None:
        """Sync records that are not confirmable yet; do nothing while a sync of the partition is under way.

        A sync for which the node is out of descriptors or memory starts later; the responses wait for it.

        Raises:
            StorageError: a file could not even be opened; the log directory is offline.
        """
        topic_partition = partition.topic_partition
        log = partition.log
        if log.confirmable_offset >= log.log_end_offset or self._under_way.get(topic_partition) is partition:
            return
        self._under_way[topic_partition] = partition

        def done(_: StorageError | None) -> None:
            if self._under_way.get(topic_partition) is partition:
                del self._under_way[topic_partition]
            # After an error of files that the log has left, moved to another directory, another sync must start.
            if log.failure is None:
                self._synced(partition)

        try:
            log.flush_later(done)
        except ShortageError as error:
            del self._under_way[topic_partition]
            self._postpone(partition, error)
        except KafkaError:
            del self._under_way[topic_partition]
            raise

    def _postpone(self, partition: Partition, error: ShortageError) -> None:
        if self._shortage_lines.take_permit():
            logger.warning("%s: the sync starts later: %s", partition.topic_partition, error)
        if not self._postponed:
            self.due_ms = self._clock.monotonic_ms() + _RETRY_MS
        self._postponed[partition.topic_partition] = partition

    def tick(self, now_ms: int) -> None:
        """Start postponed syncs."""
        if now_ms < self.due_ms:
            return
        postponed, self._postponed, self.due_ms = self._postponed, {}, NEVER_MS
        for partition in postponed.values():
            try:
                self.start_if_due(partition)
            except StorageError as error:
                # The log directory is offline then, and the waiting requests have failed.
                logger.debug("%s: not synced: %s", partition.topic_partition, error)

"""`OffsetsLog`: the partitions of ``__consumer_offsets``, as the group coordinator writes them.

Reading back is not here: the node hands the batches to `GroupCoordinator.on_elected`.
"""

from typing import Protocol

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed


class OffsetsLog(Protocol):
    """Appends, as the leader, with ``acks=all``."""

    def append(self, partition: int, batch: bytes) -> Delayed[ErrorCode]:
        """Append one record batch (magic 2, base offset 0) to ``__consumer_offsets-<partition>``.

        Returns:
            NONE once the high watermark is above the batch. An error that is there at once (NOT_LEADER_OR_FOLLOWER,
            NOT_ENOUGH_REPLICAS, RECORD_LIST_TOO_LARGE, MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR, ...) means that nothing
            was written. One that comes later means that it may or may not stay in the log: the coordinator then stops
            serving the partition until `on_elected` gives it the log anew.
        """

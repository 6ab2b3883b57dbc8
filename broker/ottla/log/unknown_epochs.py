"""Truncate batches whose leader epoch no election has assigned, which a power cut may leave at the end of a log.

A power cut may flip a bit of an unsynced batch, and the CRC does not cover the leader epoch. Such an epoch would move a
replica of the metadata quorum into an epoch without any election; for a follower of a partition, the leader could not
find the divergence point of the two logs.
"""

import logging

from ottla.log.partition_log import PartitionLog
from ottla.types import LeaderEpoch

logger = logging.getLogger(__name__)


def truncate_unknown_epochs(log: PartitionLog, newest: LeaderEpoch) -> None:
    """Truncate the batches of epochs above ``newest``, the newest epoch that this node knows.

    Raises:
        StorageError: an I/O error.
    """
    if log.latest_epoch <= newest:
        return
    end = log.offset_for_leader_epoch(newest)
    end_offset = log.log_start_offset if end is None else end.offset
    logger.warning(
        "%s: truncating offsets %d to %d: their leader epoch %d is unknown, the newest known one is %d",
        log.topic_partition,
        end_offset,
        log.log_end_offset,
        log.latest_epoch,
        newest,
    )
    log.truncate_to(end_offset)

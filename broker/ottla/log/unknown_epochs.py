"""Batches of epochs that nobody has led, which a power cut may leave at the end of a log.

It may leave a bit of an unsynced batch wrong, and the CRC does not cover the epoch. Believed, such an epoch would put a
replica of the metadata quorum into one that nobody has elected a leader for; a follower of a partition would ask its
leader in vain where the two logs part.
"""

import logging

from ottla.log.partition_log import PartitionLog
from ottla.types import LeaderEpoch

logger = logging.getLogger(__name__)


def cut_unknown_epochs(log: PartitionLog, newest: LeaderEpoch) -> None:
    """Cut off the batches of epochs above ``newest``, the newest that this node knows to have begun.

    Raises:
        StorageError: the disk refused.
    """
    if log.latest_epoch <= newest:
        return
    end = log.offset_for_leader_epoch(newest)
    end_offset = log.log_start_offset if end is None else end.offset
    logger.warning(
        "%s: cutting off what is at offset %d to %d: it says leader epoch %d, this node knows of none after %d",
        log.topic_partition,
        end_offset,
        log.log_end_offset,
        log.latest_epoch,
        newest,
    )
    log.truncate_to(end_offset)

"""Where a replica cuts its log: when the leader says that the two have parted, or a power cut has spoilt an epoch.

Source: AbstractFetcherThread.getOffsetTruncationState of Apache Kafka 4.3; KIP-101, KIP-279, KIP-595.
"""

import logging

from ottla.log.partition_log import PartitionLog
from ottla.types import LeaderEpoch, Offset, OffsetAndEpoch

logger = logging.getLogger(__name__)


def truncation_offset(log: PartitionLog, diverging: OffsetAndEpoch) -> Offset:
    """Return the log end offset that ``log`` shall have; the next fetch shows whether that was enough.

    ``diverging`` is the leader's answer: the largest epoch that it knows at or below the last one fetched, and where
    that ended. A follower without that epoch goes back to the end of the one before, and asks again from there.
    """
    end_offset = log.log_end_offset
    if diverging.epoch < 0:
        return min(diverging.offset, end_offset)
    own = log.offset_for_leader_epoch(diverging.epoch)
    if own is None:
        return min(diverging.offset, end_offset)
    if own.epoch != diverging.epoch:
        return min(own.offset, end_offset)
    return min(own.offset, diverging.offset, end_offset)


def cut_unknown_epochs(log: PartitionLog, leader_epoch: LeaderEpoch) -> None:
    """Cut off batches of epochs above the newest of the partition that the controller has begun, ``leader_epoch``.

    A power cut may leave a bit of an unsynced batch wrong, and the CRC does not cover the epoch. No leader knows of
    such an epoch: its follower would ask in vain where the two logs part.

    Raises:
        StorageError: the disk refused.
    """
    if log.latest_epoch <= leader_epoch:
        return
    end = log.offset_for_leader_epoch(leader_epoch)
    end_offset = log.log_start_offset if end is None else end.offset
    logger.warning(
        "%s: cutting off what is at offset %d to %d: it says leader epoch %d, the newest is %d",
        log.topic_partition,
        end_offset,
        log.log_end_offset,
        log.latest_epoch,
        leader_epoch,
    )
    log.truncate_to(end_offset)

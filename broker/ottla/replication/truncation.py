"""The offset to which a follower truncates its log when it has diverged from the leader's.

Source: AbstractFetcherThread.getOffsetTruncationState of Apache Kafka 4.3; KIP-101, KIP-279, KIP-595.
"""

from ottla.log.partition_log import PartitionLog
from ottla.types import Offset, OffsetAndEpoch


def truncation_offset(log: PartitionLog, diverging: OffsetAndEpoch) -> Offset:
    """Return the log end offset that ``log`` shall have; the next fetch shows whether that is enough.

    ``diverging`` is the leader's response: the largest epoch that it knows at or below the last one fetched, and its
    end offset. A follower without that epoch goes back to the end of the one before, and fetches again from there.
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

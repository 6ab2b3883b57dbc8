"""The copy of a log in another log directory of the node: append to it, and follow the log's truncations and its start.

The functions change only the copy. Source: ReplicaAlterLogDirsThread of Apache Kafka 4.3.
"""

from itertools import islice

from ottla.log.partition_log import PartitionLog
from ottla.replication.truncation import truncation_offset
from ottla.types import Offset
from ottla.wire.records import RecordBatch, iterate_batches

PORTION_BYTES = 1 << 20
"""Read off the loop at a time."""
APPENDED_BYTES_MAX = 256 << 10
APPENDED_BATCHES_MAX = 64
"""Appended in one step of the loop, about a millisecond; one batch is appended however large it is."""
TAIL_BYTES = APPENDED_BYTES_MAX
"""Read on the loop, from the page cache: a busy log grows during every read off the loop."""


def append_some(future: PartitionLog, data: memoryview) -> memoryview:
    """Append the first batches in ``data`` to the copy; return the rest, which has no whole batch at its end.

    A copy that must start at an earlier offset is truncated to it, and gets nothing: its checkpoint must be written
    before the next call.

    Raises:
        CorruptRecordError: a CRC is wrong: the log is corrupt.
        StorageError: an I/O error.
    """
    first: RecordBatch | None = None
    size_bytes = 0
    for batch in islice(iterate_batches(data), APPENDED_BATCHES_MAX):
        if first is None:
            first = batch
        elif size_bytes + batch.size_bytes > APPENDED_BYTES_MAX:
            break
        size_bytes += batch.size_bytes
    if first is None:
        return data[:0]
    if future.log_end_offset == future.log_start_offset and first.base_offset < future.log_end_offset:
        # The log start is within a batch, which is copied as a whole.
        future.truncate_fully_and_start_at(first.base_offset, future.log_start_offset)
        return data
    future.append_as_follower(data[:size_bytes])
    return data[size_bytes:]


def follow_log_start(log: PartitionLog, future: PartitionLog) -> bool:
    """Raise the log start of the copy to that of the log, and delete the segments below it.

    A copy that starts later than the log, or ends below its start, is started again; return whether it was.
    """
    offset = log.log_start_offset
    if future.log_end_offset < offset or future.log_start_offset > offset:
        future.truncate_fully_and_start_at(offset)
        return True
    if future.log_start_offset < offset:
        future.raise_log_start(offset)
        future.update_high_watermark(max(offset, min(log.high_watermark, future.log_end_offset)))
        future.apply_retention(0)
    return False


def prepare_copy(log: PartitionLog, future: PartitionLog) -> None:
    """Truncate a copy that an earlier move has left to what it has in common with the log.

    If the log is or was compacted, everything is copied again: it may have been cleaned since.
    """
    if log.may_have_gaps and future.log_end_offset > future.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset)
    truncate_to_common_prefix(log, future)


def truncate_to_common_prefix(log: PartitionLog, future: PartitionLog) -> None:
    """Truncate the copy to the records that it has in common with the log, by their leader epochs.

    If the log does not know an epoch of the copy, everything is copied again.
    """
    if future.log_end_offset > log.log_end_offset:
        future.truncate_to(max(log.log_end_offset, future.log_start_offset))
    while future.log_end_offset > future.log_start_offset:
        offset = _divergence(log, future)
        if offset is None:
            return
        if offset <= max(future.log_start_offset, log.log_start_offset):
            future.truncate_fully_and_start_at(log.log_start_offset)
            return
        future.truncate_to(offset)


def _divergence(log: PartitionLog, future: PartitionLog) -> Offset | None:
    """Return where the copy is to be truncated next; None if it is a prefix of the log."""
    epoch = future.latest_epoch
    end = log.offset_for_leader_epoch(epoch)
    if end is None:
        return future.log_start_offset
    if end.epoch == epoch and end.offset >= future.log_end_offset:
        return None
    offset = truncation_offset(future, end)
    # An epoch that the log does not have and the copy does not know either: nothing is in common.
    return offset if offset < future.log_end_offset else future.log_start_offset

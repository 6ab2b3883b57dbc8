"""Compare the leader epochs of a log's checkpoint with its batches, and rebuild them where they disagree.

The file has no checksum: a power cut may flip a bit of an unsynced one, and an entry of another offset or epoch would
move the offset to which followers truncate. Recovery rebuilds the entries of the segments that it walks; these are the
others. Epochs never decrease from batch to batch, so if the first and the last batch of each entry have its epoch, all
batches have: a few headers per entry, found by the offset index. Compaction may have removed the batch at an entry's
start offset, or all of its batches; the next one is compared then.

JVM Kafka believes the file. Source of the rebuild: LogSegment.recover (leader epoch cache) of Apache Kafka 4.3.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.errors import CorruptRecordError
from ottla.log.leader_epoch_cache import UNDEFINED_EPOCH, FoundEpoch, LeaderEpochCache
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.types import LeaderEpoch, Offset
from ottla.wire.records import NO_LEADER_EPOCH, RecordBatch

logger = logging.getLogger(__name__)

CHECKED_ENTRIES_MAX: Final = 1_000
"""The newest ones, where followers diverge; their check takes some 30 ms."""


class WalkedEpochs:
    """The leader epochs of batches that are walked in order, from ``start_offset`` on."""

    def __init__(self, start_offset: Offset) -> None:
        self.found: list[FoundEpoch] = []
        self.latest: LeaderEpoch = UNDEFINED_EPOCH
        self._end_offset = start_offset

    def add(self, batch: RecordBatch) -> None:
        if batch.leader_epoch > self.latest:
            self.latest = batch.leader_epoch
            self.found.append(FoundEpoch(batch.leader_epoch, batch.base_offset, self._end_offset))
        self._end_offset = batch.next_offset


def check_epochs(
    epochs: LeaderEpochCache,
    segments: Segments,
    *,
    log_start_offset: Offset,
    end_offset: Offset,
    epochs_from_end: Sequence[FoundEpoch],
) -> None:
    """Rebuild the epochs below ``end_offset`` from the batches, if these disagree with the file.

    ``epochs_from_end`` are those of the batches from ``end_offset`` on, in which recovery has found them.

    Raises:
        StorageError: an I/O error.
        CorruptRecordError: nothing was known, and the batches cannot be walked.
    """
    try:
        if _agree(epochs, segments, log_start_offset, end_offset):
            return
    except CorruptRecordError:
        pass  # an offset index is corrupt between its ends; the rebuild does not need it
    try:
        found = _read_epochs(segments, end_offset)
        if found and epochs_from_end and found[-1].epoch > epochs_from_end[0].epoch:
            raise CorruptRecordError(f"leader epoch {epochs_from_end[0].epoch} after {found[-1].epoch} at {end_offset}")
    except CorruptRecordError as error:
        if not epochs.entries:
            raise
        logger.warning("%s cannot be compared with the batches: %s", epochs.path, error)
        return
    logger.warning("%s disagrees with the batches below offset %d; rebuilt from them", epochs.path, end_offset)
    epochs.restore(0, found, end_offset=end_offset)


def _agree(epochs: LeaderEpochCache, segments: Segments, log_start_offset: Offset, end_offset: Offset) -> bool:
    """Return whether the first and the last batch of each entry have its epoch."""
    starts = [entry.start_offset for entry in epochs.entries if entry.start_offset < end_offset]
    if len(starts) < CHECKED_ENTRIES_MAX:
        starts.insert(0, log_start_offset)
    for start_offset in [*starts[-CHECKED_ENTRIES_MAX:], end_offset]:
        for batch in (_last_below(segments, start_offset), _first_from(segments, start_offset)):
            # A batch below the log start is deleted, though its segment is not.
            if batch is None or not log_start_offset <= batch.last_offset < end_offset:
                continue
            # Releases of Kafka before 0.11 wrote no epochs.
            if batch.leader_epoch == NO_LEADER_EPOCH:
                continue
            if epochs.epoch_for_offset(max(batch.base_offset, log_start_offset)) != batch.leader_epoch:
                return False
    return True


def _last_below(segments: Segments, offset: Offset) -> RecordBatch | None:
    """Return the header of the last batch that ends below ``offset``."""
    segment = segments.floor(offset - 1)
    while segment is not None:
        last = None
        for batch in _headers_from(segment, offset - 1):
            if batch.last_offset >= offset:
                break
            last = batch
        if last is not None:
            return last
        segment = segments.floor(segment.base_offset - 1)
    return None


def _first_from(segments: Segments, offset: Offset) -> RecordBatch | None:
    """Return the header of the first batch that ends at or above ``offset``."""
    for segment in segments.starting_with(offset):
        for batch in _headers_from(segment, offset):
            if batch.last_offset >= offset:
                return batch
    return None


def _headers_from(segment: Segment, offset: Offset) -> Iterator[RecordBatch]:
    """Yield the headers from the last indexed batch that ends at or below ``offset``, or from the first one, on."""
    position = max(segment.offset_index.lookup(offset), 0)
    for _, batch in segment.walk_headers(position):
        yield batch


def _read_epochs(segments: Segments, end_offset: Offset) -> list[FoundEpoch]:
    """Return the epochs of the batches below ``end_offset``.

    Raises:
        CorruptRecordError: bytes that are no header, or an epoch below the previous one.
    """
    epochs = WalkedEpochs(0)
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        for _, batch in segment.walk_headers():
            epoch = batch.leader_epoch
            if epoch < epochs.latest and epoch != NO_LEADER_EPOCH:
                raise CorruptRecordError(
                    f"{segment.path}: leader epoch {epoch} after {epochs.latest} at {batch.base_offset}"
                )
            epochs.add(batch)
    return epochs.found

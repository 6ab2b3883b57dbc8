"""The work of one cleaning, done off the loop: build the offset map, then write a cleaned segment for each group.

It is done slice by slice, and may be given up between two of them. It uses nothing that the loop changes: a
`CleaningPlan` has all that it needs, and it opens the files itself. The receiver of a `CleanedGroup` replaces the
group's segments, on the loop.

Source: Cleaner of Kafka.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.errors import CorruptRecordError, disk_error
from ottla.log.batch_walk import walk_batches
from ottla.log.cleaner.batch_filter import Retention, filter_batch
from ottla.log.cleaner.cleaned_segment import CleanedSegment, CleanedSegmentWriter
from ottla.log.cleaner.cleaned_transactions import CleanedTransactions
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.cleaner.segment_groups import SourceSegment, group_segments
from ottla.log.config import LogConfig
from ottla.log.file_names import INDEX_SUFFIX, segment_path
from ottla.log.offset_index import OffsetIndex
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.log.validation import RECORDS_SIZE_BYTES_MAX
from ottla.ports import Disk
from ottla.types import Offset
from ottla.wire.records import RecordBatch, build_empty_batch, decompress, read_record_keys

BUFFERS_PER_SLICE: Final = 8
RECORDS_PER_SLICE: Final = 4_000
"""Some 20 ms of work. Between slices a changed log ends the cleaning, and the limit of bytes per second delays it; the
exchange with the loop takes 0.2 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """What to clean, as it was when the cleaning started.

    Attributes:
        directory: of the log.
        sources: the log's segments below the first uncleanable offset.
        transaction_indexes: path and base offset of each that exists, also above that offset: a transaction may end
            there.
        first_dirty_offset: records below were cleaned before.
        keep: what decides about each batch.
        slots: of the offset map.
        load_factor: log.cleaner.io.buffer.load.factor.
        buffer_size_bytes: of one read or write.
    """

    directory: str
    config: LogConfig
    sources: tuple[SourceSegment, ...]
    transaction_indexes: tuple[tuple[str, Offset], ...]
    first_dirty_offset: Offset
    keep: Retention
    slots: int
    load_factor: float
    buffer_size_bytes: int


class CleanedGroup(NamedTuple):
    """A cleaned segment, and the segments that it replaces."""

    cleaned: CleanedSegment
    sources: list[SourceSegment]


@dataclass(slots=True)
class CleaningResult:
    """The result and the statistics of one cleaning, filled in as it advances.

    Attributes:
        end_offset: the next first dirty offset; below the first uncleanable one if the map was full.
        map_utilization: share of the map's slots that were used.
        mapped_bytes: read to build the map.
        read_bytes, written_bytes: of segments that were cleaned.
    """

    end_offset: Offset = 0
    map_utilization: float = 0.0
    mapped_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0


class Cleaning(Iterator[int | CleanedGroup | CleaningResult]):
    """The slices of one cleaning.

    Each yields the bytes that it has read and written; or a group whose segments are to be replaced before the next
    slice; the last one yields the result. They raise:

        CorruptRecordError: a batch cannot be read; the message has its offset.
        StorageError, ShortageError: from the disk.
    """

    def __init__(self, disk: Disk, plan: CleaningPlan) -> None:
        self._disk = disk
        self._plan = plan
        self._result = CleaningResult()
        self._used_bytes = self._used_records = 0
        self._steps = self._clean()

    def __next__(self) -> int | CleanedGroup | CleaningResult:
        return next(self._steps)

    def _clean(self) -> Iterator[int | CleanedGroup | CleaningResult]:
        plan, result = self._plan, self._result
        first_offset = plan.first_dirty_offset
        offset_count = plan.keep.uncleanable_offset - first_offset
        offsets = OffsetMap(plan.slots, plan.load_factor, first_offset=first_offset, offset_count=offset_count)
        yield from self._build_map(offsets)
        result.end_offset = max(offsets.latest_offset + 1, plan.first_dirty_offset)
        result.map_utilization = offsets.utilization
        sources = [source for source in plan.sources if source.base_offset < result.end_offset]
        transactions = CleanedTransactions(self._aborted_transactions(plan.sources[0].base_offset))
        for group in group_segments(sources, plan.config, self._index_size):
            yield from self._clean_group(group, offsets, transactions)
        yield result

    def _index_size(self, path: str) -> int:
        try:
            return self._disk.size_bytes(path)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise disk_error(f"cannot look at {path}", error) from error

    def _build_map(self, offsets: OffsetMap) -> Iterator[int]:
        """Add the keys of the dirty section, until the map is full."""
        start_offset = self._plan.first_dirty_offset
        transactions = CleanedTransactions(self._aborted_transactions(start_offset))
        for source in self._plan.sources:
            if source.end_offset <= start_offset:
                continue
            for batch in self._batches(source, start_offset):
                self._result.mapped_bytes += batch.size_bytes
                yield from self._use(batch.size_bytes, batch.record_count)
                with _naming_offset(batch):
                    has_added = _add_keys(batch, start_offset, offsets, transactions)
                if not has_added:
                    return
            # Offsets at the segment's end may have been removed before.
            offsets.advance(source.end_offset - 1)

    def _clean_group(
        self, group: list[SourceSegment], offsets: OffsetMap, transactions: CleanedTransactions
    ) -> Iterator[int | CleanedGroup]:
        plan, result, base_offset = self._plan, self._result, group[0].base_offset
        writer = CleanedSegmentWriter(
            self._disk, plan.directory, base_offset, plan.config, buffer_size_bytes=plan.buffer_size_bytes
        )
        transactions.index = writer.transaction_index
        last: RecordBatch | None = None
        last_base_offset = base_offset
        for source in group:
            for batch in self._batches(source, source.base_offset):
                with _naming_offset(batch):
                    left = filter_batch(batch, offsets, transactions, plan.keep)
                if left:
                    writer.append(left)
                last, last_base_offset = batch, source.base_offset
                result.read_bytes += batch.size_bytes
                yield from self._use(batch.size_bytes + len(left), batch.record_count)
        if last is not None and last_base_offset >= max(writer.end_offset, base_offset + 1):
            # After a crash during the replacement, the offsets of the cleaned segment determine which segments it
            # replaces: it must reach into the last one that has records.
            writer.append(build_empty_batch(last))
        cleaned = writer.finish()
        result.written_bytes += cleaned.size_bytes
        yield CleanedGroup(cleaned, group)

    def _use(self, size_bytes: int, record_count: int) -> Iterator[int]:
        """Count what was read and written; end the slice if it fills some buffers, or took as long as a slice may."""
        self._used_bytes += size_bytes
        self._used_records += record_count
        if (
            self._used_bytes >= BUFFERS_PER_SLICE * self._plan.buffer_size_bytes
            or self._used_records >= RECORDS_PER_SLICE
        ):
            used_bytes, self._used_bytes, self._used_records = self._used_bytes, 0, 0
            yield used_bytes

    def _batches(self, source: SourceSegment, start_offset: Offset) -> Iterator[RecordBatch]:
        """Yield the batches of a segment, whole, from a position at or before ``start_offset`` on."""
        plan = self._plan
        position = 0
        if start_offset > source.base_offset:
            index_path = segment_path(plan.directory, source.base_offset, INDEX_SUFFIX)
            position = OffsetIndex(self._disk, index_path, source.base_offset).lookup(start_offset)
        next_offset = source.base_offset
        try:
            file = self._disk.open(source.log_path, read_only=True)
            try:
                for _, batch in walk_batches(
                    file, position=position, end_position=source.size_bytes, read_size_bytes=plan.buffer_size_bytes
                ):
                    next_offset = batch.next_offset
                    yield batch
            finally:
                file.close()
        except OSError as error:
            raise disk_error(f"cannot read {source.log_path}", error) from error
        except CorruptRecordError as error:
            raise CorruptRecordError(f"the batch at or after offset {next_offset}: {error.message}") from error

    def _aborted_transactions(self, start_offset: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap with the offsets from ``start_offset`` on that are cleaned."""
        found: list[AbortedTransaction] = []
        for path, base_offset in self._plan.transaction_indexes:
            index = TransactionIndex(self._disk, path, base_offset, exists=True)
            transactions, is_complete = index.collect(start_offset, self._plan.keep.uncleanable_offset)
            found += transactions
            if is_complete:
                break
        return found


def _add_keys(batch: RecordBatch, start_offset: Offset, offsets: OffsetMap, transactions: CleanedTransactions) -> bool:
    """Add the keys of the batch from ``start_offset`` on; return False when the map is full."""
    if batch.last_offset < start_offset:
        return True
    batch.check_crc()
    is_aborted = transactions.is_discardable(batch)
    if not batch.is_control and not is_aborted:
        data = decompress(batch.compression, batch.payload, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
        keys: list[bytes] = []
        key_offsets: list[Offset] = []
        for offset, key, *_ in read_record_keys(batch, data):
            if key is not None and offset >= start_offset:
                keys.append(key)
                key_offsets.append(offset)
        if not offsets.put_all(keys, key_offsets):
            return False
    offsets.advance(batch.last_offset)
    return True


@contextmanager
def _naming_offset(batch: RecordBatch) -> Iterator[None]:
    try:
        yield
    except CorruptRecordError as error:
        raise CorruptRecordError(f"the batch at offset {batch.base_offset}: {error.message}") from error

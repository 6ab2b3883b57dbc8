"""One segment of a log: a ``.log`` file of record batches with its three indexes.

Appends go to the active segment; the others never change until they are deleted. A segment opens its file on first use,
and `OpenFiles` may close it.

Source: LogSegment of Kafka.
"""

from collections.abc import Iterator, Sequence

from ottla.errors import CorruptRecordError, StorageError, disk_error
from ottla.log.batch_walk import BatchPlace, find_batch, walk_batches, walk_headers
from ottla.log.config import LogConfig
from ottla.log.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from ottla.log.open_files import OpenFiles
from ottla.log.time_index import TimeIndex
from ottla.log.transaction_index import TransactionIndex
from ottla.ports import Buffer, Disk, File
from ottla.types import Offset
from ottla.wire.records import NO_TIMESTAMP, RecordBatch

SEGMENT_SIZE_BYTES_MAX = (1 << 31) - 1


class Segment:
    """See the module. Every method raises StorageError on an I/O error.

    Attributes:
        base_offset: the lowest offset that it may hold, which is in the names of its files.
        size_bytes: of the batches in it.
        created_ms: when this node created or loaded it, by the wall clock: the start of `age_ms` without timestamps.
        first_timestamp_ms: the largest timestamp of its first batch, -1 before it is known: the start of segment.ms.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_disk",
        "_file",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_open_files",
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "offset_index",
        "path",
        "size_bytes",
        "time_index",
        "transaction_index",
        "was_used",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        open_files: OpenFiles,
        directory: str,
        base_offset: Offset,
        size_bytes: int,
        created_ms: int,
        has_transactions: bool = False,
        suffix: str = "",
    ) -> None:
        """Open nothing yet; ``suffix`` follows in the names of all files, as ``.cleaned`` does."""
        self._disk = disk
        self._open_files = open_files
        self._file: File | None = None
        self.was_used = True
        self.base_offset = base_offset
        self.path = segment_path(directory, base_offset, LOG_SUFFIX + suffix)
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.first_timestamp_ms = NO_TIMESTAMP
        self.offset_index = OffsetIndex(disk, segment_path(directory, base_offset, INDEX_SUFFIX + suffix), base_offset)
        self.time_index = TimeIndex(disk, segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix), base_offset)
        self.transaction_index = TransactionIndex(
            disk,
            segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX + suffix),
            base_offset,
            exists=has_transactions,
        )
        self._bytes_since_index_entry = 0
        self._max_timestamp_ms: int | None = None  # None: not read from the time index yet
        self._max_timestamp_offset: Offset = base_offset

    def __repr__(self) -> str:
        return f"Segment({self.path!r}, {self.size_bytes} bytes)"

    # --- the file

    @property
    def file(self) -> File:
        """The open ``.log`` file; opened on first use."""
        self.was_used = True
        return self._file or self._open()

    def create(self) -> None:
        """Create the empty files of a new segment."""
        self._open(create=True).truncate(0)
        self.offset_index.reset()
        self.time_index.reset()
        self.offset_index.save()
        self.time_index.save()

    def _open(self, *, create: bool = False) -> File:
        try:
            file = self._file = self._disk.open(self.path, create=create)
        except OSError as error:
            raise disk_error(f"cannot open {self.path}", error) from error
        self._open_files.opened(self)
        return file

    def release(self) -> None:
        """Drop the descriptor and the indexes' entries; `OpenFiles` calls this.

        The file is not closed but dropped: slices of it may be queued for a socket.
        """
        self._file = None
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def close(self) -> None:
        """Write the indexes and close all files."""
        if self._file is not None:
            self._open_files.closed(self)
        self.release()

    def discard(self) -> None:
        """Close all files without writing, because they are being deleted."""
        if self._file is not None:
            self._open_files.closed(self)
            self._file = None
        self.offset_index.drop_entries()
        self.time_index.drop_entries()
        self.transaction_index.release()

    def move_to(self, directory: str) -> None:
        """Use the files in ``directory``, to which they have been moved."""
        self.close()
        self.path = segment_path(directory, self.base_offset, LOG_SUFFIX)
        self.offset_index.file.path = segment_path(directory, self.base_offset, INDEX_SUFFIX)
        self.time_index.file.path = segment_path(directory, self.base_offset, TIME_INDEX_SUFFIX)
        self.transaction_index.file.path = segment_path(directory, self.base_offset, TRANSACTION_INDEX_SUFFIX)

    def paths(self) -> list[str]:
        """The paths of its files, of which the transaction index may not exist."""
        indexes = (self.offset_index.file, self.time_index.file, self.transaction_index.file)
        return [self.path, *(index.path for index in indexes)]

    # --- appending

    def write(self, buffers: Sequence[Buffer], size_bytes: int) -> int:
        """Append whole batches to the file; return their position. The caller then calls `index_batch` for each."""
        position = self.size_bytes
        self.was_used = True
        file = self._file or self._open()
        try:
            file.pwritev(buffers, position)
        except OSError as error:
            raise StorageError(f"cannot write {size_bytes} bytes to {self.path} at {position}: {error}") from error
        self.size_bytes = position + size_bytes
        return position

    def index_batch(
        self, position: int, *, size_bytes: int, last_offset: Offset, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """Register the batch at ``position``; add index entries if ``interval_bytes`` have passed since the last."""
        known_ms = self._max_timestamp_ms
        if known_ms is None:
            known_ms = self.max_timestamp_ms
        if max_timestamp_ms > known_ms:
            self._max_timestamp_ms = known_ms = max_timestamp_ms
            self._max_timestamp_offset = last_offset
        if self._bytes_since_index_entry > interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_later(known_ms, self._max_timestamp_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size_bytes
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms

    def must_roll(
        self, config: LogConfig, size_bytes: int, max_timestamp_ms: int, last_offset: Offset, now_ms: int
    ) -> bool:
        """Whether a batch with these properties must go to a new segment."""
        held_bytes = self.size_bytes
        if held_bytes + size_bytes > config.segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if held_bytes > 0:
            waited_ms = self._waited_ms(max_timestamp_ms, now_ms)
            if waited_ms > config.roll_ms:
                return True
        # One time index entry is reserved for the roll itself.
        return (
            len(self.offset_index) >= config.offset_index_entries_max
            or len(self.time_index) >= config.time_index_entries_max - 1
        )

    def _waited_ms(self, max_timestamp_ms: int, now_ms: int) -> int:
        """Return the age of the first record for the roll, by the records' own timestamps if they have any."""
        first_ms = self.read_first_timestamp()
        if first_ms >= 0 and max_timestamp_ms >= 0:
            return max_timestamp_ms - first_ms
        return self._own_age_ms(now_ms)

    def read_first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, from the file if it is not known; -1 if there is none."""
        if self.first_timestamp_ms == NO_TIMESTAMP and self.size_bytes > 0:
            _, batch = next(self.walk_headers())
            self.first_timestamp_ms = batch.max_timestamp_ms
        return self.first_timestamp_ms

    def become_inactive(self) -> None:
        """Write the last time index entry and both indexes: no more batches will be appended."""
        self.time_index.append_if_later(self.max_timestamp_ms, self._max_timestamp_offset)
        self.offset_index.save()
        self.time_index.save()

    # --- contents

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp in the segment, -1 when none of its records has one."""
        if self._max_timestamp_ms is None:
            self._max_timestamp_ms, self._max_timestamp_offset = self.time_index.last_entry()
        return self._max_timestamp_ms

    @property
    def max_timestamp_offset(self) -> Offset:
        """The last offset of the first batch that has `max_timestamp_ms`."""
        return self._max_timestamp_offset if self.max_timestamp_ms >= 0 else self.base_offset

    def age_ms(self, now_ms: int) -> int:
        """Return how old the newest record is by its timestamp, or else the segment; ``now_ms`` is wall time."""
        newest_ms = self.max_timestamp_ms
        return now_ms - newest_ms if newest_ms >= 0 else self._own_age_ms(now_ms)

    def _own_age_ms(self, now_ms: int) -> int:
        # A clock that was ahead when the segment was created has been corrected: the age counts from now on.
        self.created_ms = min(self.created_ms, now_ms)
        return now_ms - self.created_ms

    def find(self, offset: Offset) -> BatchPlace | None:
        """Return the first batch whose last offset is at or above ``offset``; None when there is none."""
        position = self.offset_index.lookup(offset)
        try:
            return find_batch(self.file, offset, position=position, end_position=self.size_bytes)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error}") from error

    def walk_headers(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """Yield (position, batch) from the batch at ``position``, with only the header in each buffer."""
        return _guarded(walk_headers(self.file, position=position, end_position=self.size_bytes), self.path)

    def walk_batches(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """Yield (position, batch) from the batch at ``position``, whole."""
        return _guarded(walk_batches(self.file, position=position, end_position=self.size_bytes), self.path)

    def read_next_offset(self, *, unindexed_bytes_max: int = SEGMENT_SIZE_BYTES_MAX) -> Offset:
        """Return the offset after the segment's last record, read from the end of its index; also read all timestamps.

        Raises:
            CorruptRecordError: the file does not end with a whole batch, or an index cannot be this segment's.
        """
        if self.size_bytes == 0:
            return self.base_offset
        next_offset = self.base_offset
        last_indexed, last_timed = self.offset_index.last_entry(), self.time_index.last_entry()
        self._max_timestamp_ms, self._max_timestamp_offset = last_timed
        _, position = last_indexed
        for at, batch in self.walk_headers(max(position, 0)):
            next_offset = batch.next_offset
            if batch.max_timestamp_ms > self._max_timestamp_ms:
                self._max_timestamp_ms, self._max_timestamp_offset = batch.max_timestamp_ms, batch.last_offset
            self._bytes_since_index_entry = at - position + batch.size_bytes
        is_timed = position > 0
        if not self._are_valid_entries(last_indexed, last_timed, next_offset, unindexed_bytes_max, is_timed=is_timed):
            raise CorruptRecordError(f"{self.path} has an invalid index")
        return next_offset

    def has_valid_indexes(self, end_offset: Offset, *, unindexed_bytes_max: int) -> bool:
        """Whether the last entries of an inactive segment's indexes are possible for it.

        Args:
            end_offset: the next segment's base offset.
            unindexed_bytes_max: the size limit of a segment with an empty offset index.

        Raises:
            CorruptRecordError: the time index is empty, and the segment does not start with a header.
        """
        if self.size_bytes == 0:
            return True
        last_indexed, last_timed = self.offset_index.last_entry(), self.time_index.last_entry()
        return self._are_valid_entries(last_indexed, last_timed, end_offset, unindexed_bytes_max, is_timed=True)

    def _are_valid_entries(
        self,
        last_indexed: tuple[Offset, int],
        last_timed: tuple[int, Offset],
        end_offset: Offset,
        unindexed_bytes_max: int,
        *,
        is_timed: bool,
    ) -> bool:
        """Whether these may be the last entries; ``is_timed``: no time entry means that records have no timestamps."""
        offset, position = last_indexed
        timestamp_ms, timestamp_offset = last_timed
        return (
            self.offset_index.file.is_whole
            and self.time_index.file.is_whole
            and self.base_offset <= offset < end_offset
            and 0 <= position < self.size_bytes
            and (position > 0 or self.size_bytes <= unindexed_bytes_max)
            and self.base_offset <= timestamp_offset < end_offset
            and (timestamp_ms >= 0 or not is_timed or next(self.walk_headers())[1].max_timestamp_ms < 0)
            and self.transaction_index.is_sane()
        )

    # --- truncation

    def reset_indexes(self) -> None:
        """Empty the indexes, before recovery rebuilds them."""
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index_entry = 0
        self.first_timestamp_ms = NO_TIMESTAMP

    def truncate_bytes(self, size_bytes: int) -> None:
        """Truncate the file; the caller truncates the indexes."""
        try:
            self.file.truncate(size_bytes)
        except OSError as error:
            raise StorageError(f"cannot truncate {self.path} to {size_bytes} bytes: {error}") from error
        self.size_bytes = size_bytes

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove the batches from the one with ``offset`` on; return the offset after the last remaining one.

        A batch that straddles ``offset`` is removed as a whole.
        """
        place = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        if place is not None:
            self.truncate_bytes(place.position)
        self._max_timestamp_ms = None
        self._bytes_since_index_entry = 0
        if self.size_bytes == 0:
            self.first_timestamp_ms = NO_TIMESTAMP
        return self.read_next_offset()

    def files_to_sync(self, *, with_indexes: bool) -> list[File]:
        """Write everything, and return the files to sync for the segment to be durable.

        Of the active segment that is only the ``.log``: recovery rebuilds its indexes.
        """
        files = [self.file]
        if with_indexes:
            self.offset_index.save()
            self.time_index.save()
            indexes = [self.offset_index.file, self.time_index.file]
            if self.transaction_index.exists:
                indexes.append(self.transaction_index.file)
            files += [index.open() for index in indexes]
        return files


def _guarded(walk: Iterator[tuple[int, RecordBatch]], path: str) -> Iterator[tuple[int, RecordBatch]]:
    try:
        yield from walk
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error

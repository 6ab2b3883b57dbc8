"""Writes the ``.cleaned`` files of one segment, and puts them on stable storage.

They are written off the loop, by their own `Segment`; `LocalLog.replace_segments` renames them on the loop.
"""

from typing import Final, NamedTuple

from ottla.errors import CorruptRecordError, StorageError, disk_error
from ottla.log.config import LogConfig
from ottla.log.deleted_files import remove_file
from ottla.log.file_names import CLEANED_SUFFIX
from ottla.log.open_files import OpenFiles
from ottla.log.segment import SEGMENT_SIZE_BYTES_MAX, Segment
from ottla.log.transaction_index import TransactionIndex
from ottla.ports import Buffer, Disk
from ottla.types import Offset
from ottla.wire.records import RecordBatch

_CREATED_MS: Final = 0
"""Never read: the segment that the log opens at these files gets the time of the segments that it replaces."""


class CleanedSegment(NamedTuple):
    """Finished and synced ``.cleaned`` files.

    Attributes:
        end_offset: the offset after the last batch; the base offset if there is none.
    """

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    has_transactions: bool


class CleanedSegmentWriter:
    """See the module. Every method raises StorageError on an I/O error.

    Attributes:
        end_offset: the offset after the last batch.
        size_bytes: of all batches so far.
    """

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, config: LogConfig, *, buffer_size_bytes: int
    ) -> None:
        self._interval_bytes = config.index_entry_interval_bytes
        self._buffer_size_bytes = buffer_size_bytes
        self._segment = Segment(
            disk=disk,
            open_files=OpenFiles(),
            directory=directory,
            base_offset=base_offset,
            size_bytes=0,
            created_ms=_CREATED_MS,
            suffix=CLEANED_SUFFIX,
        )
        self.end_offset = base_offset
        self.size_bytes = 0
        self._waiting: list[RecordBatch] = []
        self._waiting_bytes = 0
        for path in self._segment.paths():
            remove_file(disk, path)  # of an earlier attempt
        self._segment.create()

    @property
    def transaction_index(self) -> TransactionIndex:
        return self._segment.transaction_index

    def append(self, data: Buffer) -> None:
        """Append one batch; it is written once a buffer is full.

        Raises:
            CorruptRecordError: the segment would be larger than a position can be.
        """
        batch = RecordBatch(data, 0)
        self.size_bytes += len(data)
        if self.size_bytes > SEGMENT_SIZE_BYTES_MAX:
            raise CorruptRecordError(
                f"at offset {batch.base_offset} the cleaned segment is larger than {SEGMENT_SIZE_BYTES_MAX} bytes"
            )
        self._waiting.append(batch)
        self._waiting_bytes += len(data)
        self.end_offset = batch.next_offset
        if self._waiting_bytes >= self._buffer_size_bytes:
            self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        segment = self._segment
        position = segment.write((b"".join(batch.data for batch in self._waiting),), self._waiting_bytes)
        for batch in self._waiting:
            segment.index_batch(
                position,
                size_bytes=batch.size_bytes,
                last_offset=batch.last_offset,
                max_timestamp_ms=batch.max_timestamp_ms,
                interval_bytes=self._interval_bytes,
            )
            position += batch.size_bytes
        self._waiting = []
        self._waiting_bytes = 0

    def finish(self) -> CleanedSegment:
        """Write and sync everything, and close the files."""
        self._write()
        segment = self._segment
        segment.become_inactive()
        try:
            for file in segment.files_to_sync(with_indexes=True):
                file.sync()
        except OSError as error:
            raise disk_error(f"cannot sync {segment.path}", error) from error
        segment.close()
        return CleanedSegment(
            segment.base_offset, self.end_offset, segment.size_bytes, segment.transaction_index.exists
        )


def remove_cleaned_files(disk: Disk, directory: str) -> None:
    """Remove the ``.cleaned`` files of a log: those of a cleaning that was given up, also if its process died.

    Raises:
        StorageError: an I/O error.
    """
    try:
        names = disk.list_directory(directory)
    except FileNotFoundError:  # the log was deleted or moved
        return
    except OSError as error:
        raise StorageError(f"cannot list {directory}: {error}") from error
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            remove_file(disk, f"{directory}/{name}")

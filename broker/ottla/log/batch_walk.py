"""Walk the batches of a ``.log`` file: by their headers only, or whole.

Source: FileLogInputStream of Kafka.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.errors import CorruptRecordError
from ottla.ports import File
from ottla.types import Offset
from ottla.wire.records import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, RecordBatch, parse_batch

HEADERS_READ_SIZE_BYTES = 4096
"""As many small batches as one index interval may hold; of large ones, this is little more than the header."""
BATCHES_READ_SIZE_BYTES = 1 << 20

_PLACE = Struct(">qi11xi")
"""base_offset, batch_length, last_offset_delta: a search needs no more."""
_LENGTH_MIN = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES


class BatchPlace(NamedTuple):
    """Position of a batch in its file, and its offsets."""

    base_offset: Offset
    last_offset: Offset
    position: int
    size_bytes: int


def find_batch(file: File, offset: Offset, *, position: int, end_position: int) -> BatchPlace | None:
    """Return the first batch from ``position`` on whose last offset is at or above ``offset``.

    None when there is none before ``end_position``. Reads headers only: everything in a log was checked when it was
    appended or recovered.

    Raises:
        CorruptRecordError: bytes that are no batch.
    """
    while position + _PLACE.size <= end_position:
        chunk = file.pread(min(HEADERS_READ_SIZE_BYTES, end_position - position), position)
        at = 0
        last = len(chunk) - _PLACE.size
        if last < 0:
            return None
        while at <= last:
            base_offset, length, last_offset_delta = _PLACE.unpack_from(chunk, at)
            if length < _LENGTH_MIN:
                raise CorruptRecordError(f"{file.path}: the bytes at position {position + at} are no batch")
            if base_offset + last_offset_delta >= offset:
                size_bytes = length + LOG_OVERHEAD_BYTES
                return BatchPlace(base_offset, base_offset + last_offset_delta, position + at, size_bytes)
            at += length + LOG_OVERHEAD_BYTES
        position += at
    return None


def walk_headers(file: File, *, position: int, end_position: int) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, batch) of every batch; only the header of each is in its buffer.

    Raises:
        CorruptRecordError: bytes that are no header, or a batch that ends after ``end_position``.
    """
    while position < end_position:
        chunk = file.pread(min(HEADERS_READ_SIZE_BYTES, end_position - position), position)
        at = 0
        while at + HEADER_SIZE_BYTES <= len(chunk):
            batch = RecordBatch(chunk, at)
            _check_header(file, batch, position + at, end_position)
            yield position + at, batch
            at = batch.end_position
        if at == 0:
            raise CorruptRecordError(f"{file.path}: {len(chunk)} bytes at position {position} are no batch")
        position += at


def _check_header(file: File, batch: RecordBatch, position: int, end_position: int) -> None:
    if batch.magic != 2 or batch.size_bytes < HEADER_SIZE_BYTES or position + batch.size_bytes > end_position:
        raise CorruptRecordError(
            f"{file.path}: the batch at position {position} has magic {batch.magic} and {batch.size_bytes} bytes; "
            f"the file ends at {end_position}"
        )


def walk_batches(
    file: File, *, position: int, end_position: int, read_size_bytes: int = BATCHES_READ_SIZE_BYTES
) -> Iterator[tuple[int, RecordBatch]]:
    """Yield (position, batch) of every batch, whole; the CRC is the caller's to check.

    ``read_size_bytes`` are read at a time, or more for a larger batch.

    Raises:
        CorruptRecordError: bytes that are no batch, or a batch that ends after ``end_position``.
    """
    wanted_bytes = read_size_bytes
    while position < end_position:
        chunk = memoryview(file.pread(min(wanted_bytes, end_position - position), position))
        at = 0
        while (missing := _missing_bytes(chunk, at)) == 0:
            batch = parse_batch(chunk, at)
            yield position + at, batch
            at = batch.end_position
        if at == 0 and (position + len(chunk) >= end_position or missing > end_position - position):
            parse_batch(chunk)
            raise CorruptRecordError(f"{file.path}: the batch at position {position} ends after the file does")
        position += at
        wanted_bytes = max(read_size_bytes, missing)


def _missing_bytes(chunk: memoryview, at: int) -> int:
    """Return 0 when the batch at ``at`` is whole (or no batch at all), else how many bytes it needs from ``at`` on."""
    left_bytes = len(chunk) - at
    if left_bytes < HEADER_SIZE_BYTES:
        return HEADER_SIZE_BYTES
    length = int.from_bytes(chunk[at + 8 : at + 12], signed=True)
    size_bytes = length + LOG_OVERHEAD_BYTES
    return 0 if size_bytes <= left_bytes else size_bytes

"""`RecordsWalk`: checks a batch's records while they are decompressed, piece by piece and a slice at a time.

A piece may end anywhere. A partial record is kept until the next piece, unless it is large: then its fields are
followed through the pieces, and none of its bytes are kept. Records with very many headers are followed in the same
way, because their headers take longer than a slice.
"""

from collections.abc import Generator, Iterator
from typing import Final, Literal

from ottla.errors import InvalidRecordError
from ottla.wire.records.record import (
    HEADERS_MAX,
    NULL_KEY_INDEXES_MAX,
    TooManyHeadersError,
    read_size,
    skip_headers,
    walk_record,
)
from ottla.wire.records.uniform_records import NONE_UNIFORM_DELTA, count_uniform
from ottla.wire.records.varint import ZIGZAG, read_varint, read_varlong

_ROWS_FIRST: Final = 128
"""The number of records to try first; after every success four times as many, so that failures cost little."""
_ROWS_GROWTH: Final = 4
_ROWS_MAX: Final = 1024
_COLUMNS_MIN: Final = 40
"""Walking fewer records is quicker than finding their columns."""
_PATIENCE_MAX: Final = 256
"""Limit of the records that are walked between two tries; it is reached in two steps."""
_TIMESTAMP_SIZE_BYTES_MAX: Final = 9
"""So many bytes cannot be a delta beyond 2^62."""
_LARGE_SIZE_BYTES_MIN: Final = 64 * 1024
"""A partial record of this size and more is not kept."""
_HEADERS_IN_ONE_GO: Final = 256
"""A record with more headers than that, about 100 us of work, is followed header by header."""
_THOROUGH_IN_ONE_GO: Final = 100
"""Records, about 150 us of work."""
_HEADERS_PER_SLICE: Final = 100
_NUMBER_SIZE_BYTES_MAX: Final = 10

_MORE: Final = "more"
_Large = Generator[Literal["more"] | None, bytes | None, bytes]


class RecordsWalk:
    """See the module.

    Attributes:
        index: how many records have been walked.
        newest_delta, oldest_delta: the largest and smallest timestamp delta so far; the smallest only with
            ``is_thorough``.
        null_key_indexes: the indexes of the first 100 records without a key; only with ``is_thorough``.

    Args of the constructor:
        record_count: the required number of records, with offset deltas 0, 1, ...
        expected_delta: see `find_newest_timestamp_delta`.
        headers_each_max: a record with more headers raises TooManyHeadersError.
        headers_max: all records together may have so many.
        is_thorough: whether keys and the oldest timestamp matter, which takes three times as long.
    """

    def __init__(
        self,
        record_count: int,
        *,
        expected_delta: int = 0,
        headers_each_max: int = HEADERS_MAX,
        headers_max: int = HEADERS_MAX,
        is_thorough: bool = False,
    ) -> None:
        self.index = 0
        self.newest_delta = NONE_UNIFORM_DELTA
        self.oldest_delta = -NONE_UNIFORM_DELTA
        self.null_key_indexes: list[int] = []
        self._record_count = record_count
        self._expected_delta = expected_delta
        self._headers_each_max = headers_each_max
        self._headers_in_one_go = min(headers_each_max, _HEADERS_IN_ONE_GO)
        self._headers_left = headers_max
        self._is_thorough = is_thorough
        self._rest = b""
        self._large: _Large | None = None
        self._rows, self._patience = _ROWS_FIRST, 1

    def feed(self, piece: bytes) -> Iterator[None]:
        """Walk the records that ``piece`` completes; yield at least once per 200 us.

        Raises:
            InvalidRecordError: record ``index`` contradicts the batch or itself, or bytes are left after the last one.
            TooManyHeadersError: there are more headers than allowed.
        """
        data = self._rest + piece if self._rest else piece
        self._rest = b""
        position = 0
        while True:
            if self._large is not None:
                rest = yield from self._feed_large(self._large, data)
                if rest is None:
                    return
                data, position = rest, 0
            while self.index < self._record_count:
                before = self.index
                position = self._walk_some(data, position)
                if self.index == before:
                    break
                yield
            if self._large is None:
                break
            data, position = data[position:], 0
        self._rest = data[position:]
        if self.index == self._record_count and self._rest:
            raise InvalidRecordError(f"{len(self._rest)} bytes are left after the last record")

    def finish(self) -> None:
        """Check that the last piece has completed the last record.

        Raises:
            InvalidRecordError: the bytes end before the last record does.
        """
        if self.index < self._record_count:
            raise InvalidRecordError("the bytes end within it")

    # --- complete records

    def _walk_some(self, data: bytes, position: int) -> int:
        """Walk some records, none if the next is partial or must be followed; return the position of the next one."""
        end_index = self.index + (_THOROUGH_IN_ONE_GO if self._is_thorough else self._patience)
        if self._record_count - end_index < _COLUMNS_MIN:
            end_index = min(end_index + _COLUMNS_MIN, self._record_count)
        position = self._walk(data, position, end_index)
        if self.index < end_index or self._is_thorough or self._record_count - self.index < _COLUMNS_MIN:
            return position
        try:
            uniform = count_uniform(
                data,
                position,
                self.index,
                self._record_count,
                self._rows,
                self._headers_each_max,
                self._expected_delta,
            )
        except (IndexError, InvalidRecordError):  # the walk finds out which one, and whether it is partial
            return position
        count = uniform.record_count if uniform.end <= len(data) else 0  # else the last of them is partial
        if count:
            self.index += count
            self.newest_delta = max(self.newest_delta, uniform.newest_delta)
            self._count_headers(count * uniform.headers_each)
            position = uniform.end
        self._patience = 1 if count >= _COLUMNS_MIN else min(self._patience * 63, _PATIENCE_MAX)
        self._rows = min(self._rows * _ROWS_GROWTH, _ROWS_MAX) if count >= self._rows else _ROWS_FIRST
        return position

    def _walk(self, data: bytes, position: int, end_index: int) -> int:
        """Walk records up to ``end_index``, or to one that is partial or must be followed."""
        while self.index < end_index:
            if not self._is_thorough:
                position, self.index, newest, header_count = walk_plain(
                    data, position, self.index, end_index, self._headers_in_one_go
                )
                self.newest_delta = max(self.newest_delta, newest)
                self._count_headers(header_count)
                if self.index == end_index:
                    break
            end = self._walk_unusual(data, position)
            if end is None:
                break
            position = end
        return position

    def _walk_unusual(self, data: bytes, position: int) -> int | None:
        """Walk one record of any form; return None if it is partial or must be followed."""
        size_bytes, start = _peek_size(data, position)
        if size_bytes is None or size_bytes > len(data) - start:
            if size_bytes is not None and size_bytes >= _LARGE_SIZE_BYTES_MIN:
                self._begin_to_follow()
            return None
        start, end = read_size(data, position)
        try:
            delta_ms, offset_delta, key_size_bytes, header_count, position = walk_record(
                data, start, end, self._headers_in_one_go
            )
        except TooManyHeadersError:
            if self._headers_in_one_go == self._headers_each_max:
                raise
            self._begin_to_follow()
            return None
        except IndexError:
            raise InvalidRecordError("the bytes end within it") from None
        if position != end:
            raise _size_error(position - end)
        self._count_headers(header_count)
        self._note(delta_ms, offset_delta, has_key=key_size_bytes >= 0)
        return end

    def _count_headers(self, header_count: int) -> None:
        self._headers_left -= header_count
        if self._headers_left < 0:
            raise TooManyHeadersError("there are too many headers up to it")

    def _note(self, delta_ms: int, offset_delta: int, *, has_key: bool) -> None:
        """Update the result with the next record."""
        if offset_delta != self.index:
            raise InvalidRecordError(f"it has offset delta {offset_delta}")
        self.newest_delta = max(self.newest_delta, delta_ms)
        self.oldest_delta = min(self.oldest_delta, delta_ms)
        if not has_key and len(self.null_key_indexes) < NULL_KEY_INDEXES_MAX:
            self.null_key_indexes.append(self.index)
        self.index += 1

    # --- large records

    def _feed_large(self, large: _Large, data: bytes) -> Generator[None, None, bytes | None]:
        """Pass ``data`` to the record that is followed; return the bytes after it, None while it has not ended."""
        try:
            signal = large.send(data)
            while signal is None:
                yield
                signal = large.send(None)
        except StopIteration as end:
            self._large = None
            rest: bytes = end.value
            return rest
        return None

    def _begin_to_follow(self) -> None:
        self._large = self._follow()
        next(self._large)

    def _follow(self) -> _Large:
        """Walk one record through all its pieces; return the bytes after it."""
        fields = _Fields()
        size_bytes = yield from fields.read_number(_NUMBER_SIZE_BYTES_MAX)
        if size_bytes < 0:
            raise InvalidRecordError(f"it says that it has {size_bytes} bytes")
        fields.left_bytes = size_bytes
        yield from fields.skip(1)
        delta_ms = yield from fields.read_number(_NUMBER_SIZE_BYTES_MAX, is_long=True)
        offset_delta = yield from fields.read_number(_NUMBER_SIZE_BYTES_MAX)
        key_size_bytes = yield from fields.skip_sized()
        yield from fields.skip_sized()
        header_count = yield from fields.read_number(_NUMBER_SIZE_BYTES_MAX)
        if not 0 <= header_count <= fields.left_bytes // 2:
            raise InvalidRecordError(
                f"it says that it has {header_count} headers; {fields.left_bytes} bytes are left in it"
            )
        if header_count > self._headers_each_max:
            raise TooManyHeadersError(f"it has {header_count} headers")
        self._count_headers(header_count)
        for number in range(header_count):
            if (yield from fields.skip_sized()) < 0:
                raise InvalidRecordError("one of its headers has no key")
            yield from fields.skip_sized()
            if number % _HEADERS_PER_SLICE == 0:
                yield None
        if fields.left_bytes:
            raise _size_error(-fields.left_bytes)
        self._note(delta_ms, offset_delta, has_key=key_size_bytes >= 0)
        return fields.rest


class _Fields:
    """The fields of one record whose bytes arrive in pieces."""

    def __init__(self) -> None:
        self._data = b""
        self._position = 0
        self.left_bytes = _NUMBER_SIZE_BYTES_MAX
        """Of the record."""

    @property
    def rest(self) -> bytes:
        return self._data[self._position :]

    def read_number(self, size_bytes_max: int, *, is_long: bool = False) -> Generator[Literal["more"], bytes, int]:
        """Return the next varint."""
        while True:
            at = self._position
            try:
                byte = self._data[at]
                if byte < 0x80:
                    number, end = ZIGZAG[byte], at + 1
                else:
                    number, end = (read_varlong if is_long else read_varint)(self._data, at)
            except IndexError:
                if len(self._data) - at >= min(size_bytes_max, self.left_bytes):
                    raise InvalidRecordError("the bytes end within it") from None
                self._data = self.rest + (yield _MORE)
                self._position = 0
                continue
            self._position = end
            self.left_bytes -= end - at
            if self.left_bytes < 0:
                raise _size_error(-self.left_bytes)
            return number

    def skip_sized(self) -> Generator[Literal["more"], bytes, int]:
        """Skip a size and as many bytes; return the size, -1 for null."""
        size_bytes = yield from self.read_number(_NUMBER_SIZE_BYTES_MAX)
        if size_bytes < -1:
            raise InvalidRecordError(f"one of its fields says that it has {size_bytes} bytes")
        if size_bytes > 0:
            yield from self.skip(size_bytes)
        return size_bytes

    def skip(self, size_bytes: int) -> Generator[Literal["more"], bytes, None]:
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise _size_error(-self.left_bytes)
        self._position += size_bytes
        while self._position > len(self._data):
            self._position -= len(self._data)
            self._data = yield _MORE


def _peek_size(data: bytes, position: int) -> tuple[int | None, int]:
    """Return the size of the record at ``position``, and the position after it; None if it is partial."""
    try:
        byte = data[position]
        return (ZIGZAG[byte], position + 1) if byte < 0x80 else read_varint(data, position)
    except IndexError:
        return None, position


def _size_error(too_many_bytes: int) -> InvalidRecordError:
    side = "after" if too_many_bytes > 0 else "before"
    return InvalidRecordError(f"its fields end {abs(too_many_bytes)} bytes {side} its size says")


def _read_raw(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at ``position`` with its sign in bit 0, and its end.

    Raises:
        InvalidRecordError: it might be beyond 2^62.
    """
    number = shift = 0
    while (byte := data[position]) >= 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    if shift > 7 * (_TIMESTAMP_SIZE_BYTES_MAX - 1):
        raise InvalidRecordError("its timestamp is too unusual")
    return number | byte << shift, position + 1


def walk_plain(  # noqa: C901, PLR0912, PLR0915
    data: bytes, position: int, index: int, end_index: int, headers_each_max: int
) -> tuple[int, int, int, int]:
    """Walk valid records whose numbers have one or two bytes.

    Return the position and index of the first other or partial record, and the newest timestamp delta and the number
    of headers of the records before it. A call for each number would cost more than all of them.
    """
    most, delta, start, header_count = 2 * NONE_UNIFORM_DELTA, index, position, 0
    try:
        for delta in range(index, end_index):
            start = position
            number, more = data[position], data[position + 1]
            if number & 1:
                break
            if number < 0x80:
                end = position + 1 + (number >> 1)
                position += 2
            else:
                end = position - 62 + (more << 6) + (number >> 1)
                position += 3
                if more >= 0x80:
                    break
            if end > len(data):
                break
            number, more = data[position], data[position + 1]
            position += 1
            if number >= 0x80:
                if more >= 0x80:
                    number, position = _read_raw(data, position - 1)
                else:
                    number += (more << 7) - 0x80
                    position += 1
            delta_number = number
            number, more = data[position], data[position + 1]
            if number >= 0x80:
                number += (more << 7) - 0x80
                position += 1
                if more >= 0x80:
                    break
            if number != delta << 1:
                break
            # The key: null is size -1, which zigzag encodes as 1; a key of 64 bytes or more is unusual.
            number = data[position + 1]
            position += 2
            if number != 1:
                if number & 0x81:
                    break
                position += number >> 1
            number, more = data[position], data[position + 1]
            if number < 0x80:
                position += 1 + (number >> 1)
            else:
                position += (more << 6) + (number >> 1) - 62
                if more >= 0x80:
                    break
            count = data[position]
            if (number & 1 and number != 1) or count >= 0x80:
                break
            if (skip_headers(data, position, end, headers_each_max) if count else position + 1) != end:
                break
            header_count += count >> 1
            position = end
            if delta_number > most:  # a negative one, which is odd, counts where there is no other
                most = delta_number if not delta_number & 1 else max(most, -delta_number - 1) if most < 0 else most
        else:
            start, delta = position, end_index
    except (IndexError, InvalidRecordError):
        pass
    return start, delta, most >> 1, header_count

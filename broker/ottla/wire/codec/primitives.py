"""Functions that generated code calls: varints, compact lengths, errors."""

import struct
from collections.abc import Generator, Iterator
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeVar

from ottla.errors import ProtocolError
from ottla.ports import Buffer

_UVARINT_BYTES_MAX = 5
STRING_BYTES_MAX = 2**15 - 1
_HEADER_TAGS_MAX: Final = 1_000
"""Tagged fields of a request's header: Kafka defines none yet, and each costs time before the API is known."""
_PIECE_ITEMS: Final = 2_048
"""Fixed-size items that are packed or unpacked in one step: about 50 us."""

T = TypeVar("T")


class TooManyEntriesError(ProtocolError):
    """A message has more entries, over all of its arrays, than the caller allows at once."""


class LazyArray:
    """An array whose items are created one at a time while it is encoded in steps, which saves their memory.

    ``items`` is read once, and has exactly ``count`` items. `Message.write` rejects it as too many entries.
    """

    __slots__ = ("_count", "items")

    def __init__(self, count: int, items: Iterator[Any]) -> None:
        self._count = count
        self.items = items

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        raise TooManyEntriesError("the items of a lazy array are created while it is encoded in steps")

    @property
    def as_list(self) -> list[Any]:
        """This object, typed as the list that it replaces: only to be encoded, once."""
        return self  # type: ignore[return-value]


def items_in_steps(items: "list[Any] | LazyArray") -> Iterator[Any]:
    """Return the items of an array that is encoded in steps."""
    return items.items if isinstance(items, LazyArray) else iter(items)


class FieldNotInVersionError(ValueError):
    """A field has a value, but the version of the message has no such field."""


class TagOwner(Protocol):
    """A struct with unknown tagged fields."""

    unknown_tags: dict[int, bytes] | None


SHARED_BYTES_MIN = 8 * 1024
"""An `EncodedArray` of so many bytes is sent without a copy; copying a shorter one costs less than another piece."""


class EncodedArray(NamedTuple):
    """An array with its length as ``version`` of its message has it; see `Message.encode_array`."""

    version: int
    data: bytes

    @property
    def as_list(self) -> list[Any]:
        """This object, typed as the list that it replaces: only to be encoded, never to be read."""
        return self  # type: ignore[return-value]


UVARINT_BYTES = tuple(bytes((n,)) for n in range(128))
"""The one-byte varints: nearly every length on the wire."""


def uvarint(value: int) -> bytes:
    """Return ``value`` (0 <= value < 2**32) as an unsigned LEB128 varint."""
    if value < 128:
        return UVARINT_BYTES[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(count: int) -> bytes:
    """Return the compact length of a string, ``count`` being its size in bytes plus one.

    Raises:
        ValueError: longer than Kafka reads: 32,767 bytes, although the compact length could be larger.
    """
    if count > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string of {count - 1} bytes is longer than {STRING_BYTES_MAX}")
    return uvarint(count)


def read_string_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read the length of a string as `read_uvarint` does.

    Raises:
        ProtocolError: as `read_uvarint`, or the string is longer than 32,767 bytes.
    """
    count, position = read_uvarint(buffer, position)
    if count > STRING_BYTES_MAX + 1:
        raise ProtocolError(f"a string claims {count - 1} bytes; {STRING_BYTES_MAX} is the most")
    return count, position


def skip_header_tags(frame: memoryview, position: int) -> int:
    """Skip the tagged fields of a request's or a response's header: none is known.

    Raises:
        ProtocolError: the frame ends within them, or they are more than a thousand.
    """
    try:
        if frame[position] == 0:
            return position + 1
        count, position = read_uvarint(frame, position)
        if count > _HEADER_TAGS_MAX:
            raise ProtocolError(f"the header has {count} tagged fields; {_HEADER_TAGS_MAX} is the most")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
    except IndexError as error:
        raise ProtocolError("the header's tagged fields end too early") from error
    return position


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the varint at ``position`` and the position behind it.

    Raises:
        ProtocolError: it has more than five bytes.
        IndexError: the buffer ends within it.
    """
    value = 0
    for shift in range(0, _UVARINT_BYTES_MAX * 7, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ProtocolError("a varint is longer than five bytes")


def reject_null(field: str) -> NoReturn:
    """Raise for a null that the version does not allow."""
    raise ProtocolError(f"{field} is null, which this version does not allow")


def reject_length(field: str, size: int, left: int) -> NoReturn:
    """Raise for a length that is negative or beyond the bytes that are left; nothing was allocated for it."""
    raise ProtocolError(f"{field} claims a length of {size} with {left} bytes left")


def reject_entry_count(field: str, size: int, room: int) -> NoReturn:
    """Raise for more entries, over all arrays, than the message may have; ``room`` is by how much, below 0."""
    raise TooManyEntriesError(
        f"{field} has {size} entries, with which the message has {-room} more than ottla.request.entries.max"
    )


def reject_entries() -> NoReturn:
    """Raise for a message that has too many entries to be encoded at once."""
    raise TooManyEntriesError("the message has too many entries to be encoded at once")


def reject_tag(field: str, tag: int, version: int) -> NoReturn:
    """Raise for a known tag that this version does not have (KIP-482)."""
    raise ProtocolError(f"tag {tag} ({field}) is not valid in version {version}")


def reject_tag_size(field: str, tag: int, claimed: int, used: int) -> NoReturn:
    raise ProtocolError(f"tag {tag} ({field}) claims {claimed} bytes and holds {used}")


def reject_field(field: str, version: int) -> NoReturn:
    """Raise when a value would be lost because the version has no such field."""
    raise FieldNotInVersionError(f"{field} has a value, but version {version} cannot carry it")


def reject_encoded(field: str, encoded_for: int, version: int) -> NoReturn:
    """Raise for bytes that were encoded for another version."""
    raise ValueError(f"{field} is encoded for version {encoded_for}, but goes out in version {version}")


def read_unknown_tags(
    owner: "TagOwner",
    buffer: Buffer,
    position: int,
    end: int,
    version: int,
    other_versions_tags: dict[int, str],
    room: int,
) -> tuple[int, int]:
    """Run `read_unknown_tags_in_steps` at once: few peers send such tags, and then only a few."""
    return run_steps(read_unknown_tags_in_steps(owner, buffer, position, end, version, other_versions_tags, room))


def read_unknown_tags_in_steps(
    owner: "TagOwner",
    buffer: Buffer,
    position: int,
    end: int,
    version: int,
    other_versions_tags: dict[int, str],
    room: int,
) -> Generator[None, None, tuple[int, int]]:
    """Keep the tagged section at ``position`` on ``owner``; return the position behind it and the room left.

    For structs that have no tag in this version: each tag is unknown, or, when listed in ``other_versions_tags``,
    rejected.
    """
    count, position = read_uvarint(buffer, position)
    if count > end - position:
        reject_length("the tagged section", count, end - position)
    room -= count
    if room < 0:
        reject_entry_count("the tagged section", count, room)
    for done in range(count):
        if done % 32 == 31:
            yield
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag in other_versions_tags:
            reject_tag(other_versions_tags[tag], tag, version)
        position = keep_unknown_tag(owner, buffer, tag, position, size, end)
    return position, room


def run_steps(steps: Generator[None, None, T]) -> T:
    """Run ``steps`` to their end and return their result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def keep_unknown_tag(owner: "TagOwner", buffer: Buffer, tag: int, position: int, size: int, end: int) -> int:
    """Copy an unknown tag's bytes to ``owner``, so that they are encoded again; return the position behind them."""
    if size > end - position:
        reject_length(f"tag {tag}", size, end - position)
    if owner.unknown_tags is None:
        owner.unknown_tags = {}
    owner.unknown_tags[tag] = bytes(buffer[position : position + size])
    return position + size


def write_tags(out: bytearray, tags: list[tuple[int, bytes | bytearray]]) -> None:
    """Append a tagged section; ``tags`` in any order."""
    tags.sort()
    out += uvarint(len(tags))
    for tag, data in tags:
        out += uvarint(tag)
        out += uvarint(len(data))
        out += data


PACKERS: dict[str, struct.Struct] = {}


def packer(form: str) -> struct.Struct:
    """Return the big-endian `struct.Struct` of ``form``, cached."""
    found = PACKERS.get(form)
    if found is None:
        found = PACKERS[form] = struct.Struct(">" + form)
    return found


def pack_many(form: str, values: "list[int] | list[bytes]") -> bytes:
    """Pack a list of one fixed kind."""
    count = len(values)
    # Short lists (replicas, ISR) are frequent; long ones would only fill the cache.
    if count <= 16:
        return packer(form * count).pack(*values)
    return struct.pack(">" + form * count, *values) if form == "16s" else struct.pack(f">{count}{form}", *values)


def pack_many_in_steps(form: str, values: "list[int] | list[bytes]", out: bytearray) -> Generator[None, None, None]:
    """Append the result of `pack_many` to ``out``, piece by piece."""
    for start in range(0, len(values), _PIECE_ITEMS):
        if start:
            yield
        out += pack_many(form, values[start : start + _PIECE_ITEMS])


def unpack_many_in_steps(
    form: str, size: int, count: int, buffer: Buffer, position: int
) -> Generator[None, None, list[object]]:
    """Return the result of `unpack_many`, read piece by piece."""
    values: list[object] = []
    for start in range(0, count, _PIECE_ITEMS):
        if start:
            yield
        values += unpack_many(form, size, min(_PIECE_ITEMS, count - start), buffer, position + start * size)
    return values


def unpack_many(form: str, size: int, count: int, buffer: Buffer, position: int) -> list[object]:
    """Unpack ``count`` values of one fixed kind of ``size`` bytes; the caller has checked that they are there."""
    if form == "16s":
        return [bytes(buffer[at : at + 16]) for at in range(position, position + count * size, size)]
    return list(struct.unpack_from(f">{count}{form}", buffer, position))

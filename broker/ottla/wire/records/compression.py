"""The codecs of record batches, each with a hard limit on what comes out.

A compressed batch of a few KiB may claim gigabytes. Decompression therefore goes piece by piece and stops,
with a CorruptRecordError, as soon as more than ``size_bytes_max`` would come out. What Java's streams accept
is accepted:

- gzip: members one after the other; other bytes after a member are ignored (GZIPInputStream).
- snappy: xerial's framing (a 16-byte header, then blocks with an int32 length), and one bare snappy block,
  which is what librdkafka wrote for a time (SnappyInputStream). We write xerial's framing.
- lz4: one frame; bytes after it are ignored (Lz4BlockInputStream). Java cannot read linked blocks, so we
  write independent ones of 64 KiB.
- zstd: frames one after the other (KIP-110).

The codecs' libraries are imported when first used: a node that only passes batches on never loads them.
"""

import sys
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module
from struct import Struct
from types import ModuleType
from typing import Final

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer
from ottla.wire.records.lz4_descriptor import with_correct_checksum

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE_BYTES: Final = 16
_XERIAL_HEADER: Final = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_SIZE_BYTES: Final = 32 * 1024
_SNAPPY_EXPANSION_MAX: Final = 22
"""No snappy element makes more than 64 bytes of 3."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW_BITS: Final = 31
"""zlib's way to say: 32 KiB window, gzip header and trailer."""
_PIECE_SIZE_BYTES: Final = 256 * 1024
_LZ4_LEVEL_DEFAULT: Final = 9
"""Kafka's default level stands for the fast compressor (Lz4Compression), which the library calls 0."""

_INT32 = Struct(">i")


class Compression(IntEnum):
    """What attribute bits 0-2 of a batch say."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name: what ``compression.type`` and the tools write."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Compression":
        """Return the codec with Kafka's name ``label``.

        Raises:
            ValueError: Kafka has no codec of that name; the message lists those it has.
        """
        for codec in cls:
            if codec.label == label:
                return codec
        raise ValueError(f"{label!r} is not a compression type; choose {', '.join(codec.label for codec in cls)}")


def compress(kind: Compression, data: Buffer, *, level: int | None = None) -> bytes:
    """Return ``data`` compressed so that Java's and librdkafka's clients can read it.

    Args:
        kind: the codec; NONE copies.
        data: any contiguous bytes.
        level: the codec's own (gzip 1..9, lz4 1..17, zstd -131072..22); None is Kafka's default.
    """
    return _COMPRESSORS[kind](data, level)


def decompress(kind: Compression, data: Buffer, *, size_bytes_max: int, magic: int = 2) -> bytes:
    """Return what ``data`` was compressed from.

    Args:
        kind: the codec; NONE copies.
        data: any contiguous bytes.
        size_bytes_max: the most that may come out; memory stays below this plus one block.
        magic: the format that the bytes come from. Magic 0 wrote a wrong checksum into the lz4 frame's
            descriptor (KAFKA-3160), which is not looked at there.

    Raises:
        CorruptRecordError: the bytes are not what the codec writes, they end too early, or more comes out.
    """
    if kind is Compression.LZ4 and magic == 0:
        data = with_correct_checksum(data)
    return _DECOMPRESSORS[kind](data, size_bytes_max)


def _too_large(codec: str, compressed_size_bytes: int, size_bytes_max: int) -> CorruptRecordError:
    return CorruptRecordError(
        f"{compressed_size_bytes} bytes of {codec} hold more than the allowed {size_bytes_max} bytes"
    )


def _damaged(codec: str, reason: object) -> CorruptRecordError:
    return CorruptRecordError(f"the {codec} data of the records cannot be decompressed: {reason}")


def _ends_early(codec: str) -> CorruptRecordError:
    return _damaged(codec, "it ends before the codec's end mark")


# none


def _copy(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _copy_within(data: Buffer, size_bytes_max: int) -> bytes:
    if len(data) > size_bytes_max:
        raise _too_large("plain records", len(data), size_bytes_max)
    return bytes(data)


# gzip


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    import zlib

    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: Buffer, size_bytes_max: int) -> bytes:
    import zlib

    pieces: list[bytes] = []
    left_bytes = size_bytes_max
    rest: Buffer = data
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            # zlib takes 0 for "no limit"; one byte more than allowed also tells a bomb from an exact fit.
            piece = member.decompress(rest, left_bytes + 1)
        except zlib.error as error:
            raise _damaged("gzip", error) from error
        left_bytes -= len(piece)
        if left_bytes < 0:
            raise _too_large("gzip", len(data), size_bytes_max)
        if not member.eof:
            raise _ends_early("gzip")
        pieces.append(piece)
        rest = member.unused_data
        if not rest.startswith(_GZIP_MAGIC):
            return piece if len(pieces) == 1 else b"".join(pieces)


# snappy


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE_BYTES):
        block = snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE_BYTES])
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, size_bytes_max: int) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_snappy_block(snappy, view, size_bytes_max, view, size_bytes_max)
    out = bytearray()
    position, end = XERIAL_HEADER_SIZE_BYTES, len(view)
    if end < position:
        raise _ends_early("snappy")
    while position < end:
        if bytes(view[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            # Streams one after the other, each with its header: SnappyInputStream skips it here too.
            position += XERIAL_HEADER_SIZE_BYTES
            continue
        if end - position < _INT32.size:
            raise _ends_early("snappy")
        (length,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= length <= end - position:
            raise _damaged("snappy", f"a block of {length} bytes, where {end - position} are left")
        block = view[position : position + length]
        out += _decompress_snappy_block(snappy, block, size_bytes_max - len(out), view, size_bytes_max)
        position += length
    return bytes(out)


def _decompress_snappy_block(
    snappy: ModuleType, block: memoryview, left_bytes: int, view: memoryview, size_bytes_max: int
) -> bytes:
    """Return one block's bytes, having held its claimed size against the limit and the possible."""
    try:
        claimed_bytes = snappy.decompress_raw_len(block)
        if claimed_bytes > left_bytes:
            raise _too_large("snappy", len(view), size_bytes_max)
        if claimed_bytes > len(block) * _SNAPPY_EXPANSION_MAX:
            raise _damaged("snappy", f"a block of {len(block)} bytes claims to hold {claimed_bytes}")
        plain: bytes = bytes(snappy.decompress_raw(block))
        return plain
    except import_module("cramjam").DecompressionError as error:
        raise _damaged("snappy", error) from error


# lz4


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame

    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level in (None, _LZ4_LEVEL_DEFAULT) else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, size_bytes_max: int) -> bytes:
    from lz4 import frame

    view = memoryview(data)
    context = frame.create_decompression_context()
    pieces: list[bytes] = []
    left_bytes, position, is_at_end = size_bytes_max, 0, False
    while not is_at_end:
        try:
            piece, read_bytes, is_at_end = frame.decompress_chunk(
                context, view[position:], max_length=min(left_bytes + 1, _PIECE_SIZE_BYTES)
            )
        except RuntimeError as error:
            raise _damaged("lz4", error) from error
        left_bytes -= len(piece)
        position += read_bytes
        if left_bytes < 0:
            raise _too_large("lz4", len(view), size_bytes_max)
        if not is_at_end and not piece and not read_bytes:
            raise _ends_early("lz4")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# zstd


def _zstd() -> ModuleType:
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    compressed: bytes = _zstd().compress(data, level)
    return compressed


def _decompress_zstd(data: Buffer, size_bytes_max: int) -> bytes:
    zstd = _zstd()
    pieces: list[bytes] = []
    left_bytes = size_bytes_max
    rest: Buffer = data
    while True:
        frame = zstd.ZstdDecompressor()
        try:
            piece: bytes = frame.decompress(rest, max_length=left_bytes + 1)
        except zstd.ZstdError as error:
            raise _damaged("zstd", error) from error
        left_bytes -= len(piece)
        if left_bytes < 0:
            raise _too_large("zstd", len(data), size_bytes_max)
        if not frame.eof:
            raise _ends_early("zstd")
        pieces.append(piece)
        rest = frame.unused_data
        if not rest:
            return piece if len(pieces) == 1 else b"".join(pieces)


_COMPRESSORS: tuple[Callable[[Buffer, int | None], bytes], ...] = (
    _copy,
    _compress_gzip,
    _compress_snappy,
    _compress_lz4,
    _compress_zstd,
)
_DECOMPRESSORS: tuple[Callable[[Buffer, int], bytes], ...] = (
    _copy_within,
    _decompress_gzip,
    _decompress_snappy,
    _decompress_lz4,
    _decompress_zstd,
)

"""The codecs of record batches: written as a whole or piece by piece, read within a hard limit.

`decompression` has the readers, and what of Java's leniency they share. We write what Java's and librdkafka's clients
read: snappy in xerial's framing; lz4 in independent blocks of 64 KiB, because Java cannot read linked ones.

The codecs' libraries are imported when first used: a node that only passes batches on never loads them.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final, Protocol

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer
from ottla.wire.records.decompression import (
    GZIP_WINDOW_BITS,
    XERIAL_MAGIC,
    BufferLimitError,
    Decompressor,
    GzipReader,
    Lz4Reader,
    PlainReader,
    SnappyReader,
    ZstdReader,
    zstd_module,
)
from ottla.wire.records.lz4_descriptor import with_correct_checksum

_XERIAL_HEADER: Final = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_SIZE_BYTES: Final = 32 * 1024
_LZ4_LEVEL_DEFAULT: Final = 9
"""Kafka's default level stands for the fast compressor (Lz4Compression), which the library calls 0."""
_ZSTD_LARGE_LEVEL_MIN: Final = 17
"""From this level on, zstd would take up to 700 MiB for input whose size it does not know."""
BUFFER_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""No reader needs more: the largest window of zstd."""

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
    if kind is Compression.ZSTD:
        # In one go: zstd chooses by the size of the input how much memory it takes.
        compressed: bytes = zstd_module().compress(data, level)
        return compressed
    writer = open_compressor(kind, level)
    return writer.compress(data) + writer.flush()


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
    piece = _decompress_single(kind, data, size_bytes_max)
    if piece is not None:
        return piece
    # What comes out of snappy comes a block at a time; a larger one is too much by itself.
    buffer_bytes_max = (
        min(size_bytes_max, BUFFER_SIZE_BYTES_MAX) if kind is Compression.SNAPPY else BUFFER_SIZE_BYTES_MAX
    )
    try:
        reader = open_decompressor(kind, data, buffer_bytes_max=buffer_bytes_max)
        piece = b"" if reader.is_at_end else reader.read(size_bytes_max + 1)
        if not reader.is_at_end:
            piece = _read_rest(reader, piece, size_bytes_max)
    except BufferLimitError:
        raise too_large(kind, len(data), size_bytes_max) from None
    if len(piece) > size_bytes_max:
        raise too_large(kind, len(data), size_bytes_max)
    return piece


def _decompress_single(kind: Compression, data: Buffer, size_bytes_max: int) -> bytes | None:
    """Return what ``data`` holds where it is one member of gzip or zstd, as it nearly always is; else None."""
    try:
        if kind is Compression.GZIP:
            import zlib

            member = zlib.decompressobj(GZIP_WINDOW_BITS)
            piece = member.decompress(data, size_bytes_max + 1)
        elif kind is Compression.ZSTD:
            member = zstd_module().ZstdDecompressor()
            piece = member.decompress(data, max_length=size_bytes_max + 1)
        else:
            return None
    except Exception:  # zlib.error, ZstdError: the reader finds the words for it
        return None
    is_whole = member.eof and not member.unused_data and len(piece) <= size_bytes_max
    return piece if is_whole else None


def _read_rest(reader: Decompressor, first: bytes, size_bytes_max: int) -> bytes:
    """Read on behind ``first`` until the end, or until it is more than ``size_bytes_max``."""
    pieces, size_bytes = [first], len(first)
    while not reader.is_at_end and size_bytes <= size_bytes_max:
        piece = reader.read(size_bytes_max + 1 - size_bytes)
        pieces.append(piece)
        size_bytes += len(piece)
    return b"".join(pieces)


def open_decompressor(
    kind: Compression, data: Buffer, *, buffer_bytes_max: int = BUFFER_SIZE_BYTES_MAX
) -> Decompressor:
    """Return a reader of what ``data`` was compressed from.

    ``buffer_bytes_max`` bounds the window of zstd and the blocks of snappy; the other codecs need less than 10 MiB.

    Raises:
        CorruptRecordError: the bytes are not what the codec writes.
    """
    return _READERS[kind](data, buffer_bytes_max)


def too_large(kind: Compression, compressed_size_bytes: int, size_bytes_max: int) -> CorruptRecordError:
    """Return the error for records that decompress to more than ``size_bytes_max``."""
    name = kind.label if kind else "plain records"
    return CorruptRecordError(
        f"{compressed_size_bytes} bytes of {name} hold more than the allowed {size_bytes_max} bytes"
    )


# --- writers


class Compressor(Protocol):
    """One writing of compressed records."""

    def compress(self, data: Buffer, /) -> bytes:
        """Take the next bytes; return what of the output is there."""

    def flush(self) -> bytes:
        """Return the rest of the output; called once, at the end."""


def open_compressor(kind: Compression, level: int | None = None) -> Compressor:
    """Return a writer; see `compress`."""
    return _WRITERS[kind](level)


class _PlainWriter:
    def __init__(self, level: int | None) -> None:
        pass

    def compress(self, data: Buffer, /) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


def _open_gzip(level: int | None) -> Compressor:
    import zlib

    return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)


class _SnappyWriter:
    """Writes blocks of 32 KiB; what is left over waits for more."""

    def __init__(self, level: int | None) -> None:
        from cramjam import snappy

        self._snappy = snappy
        self._rest = b""
        self._header = _XERIAL_HEADER

    def compress(self, data: Buffer, /) -> bytes:
        plain = memoryview(self._rest + bytes(data)) if self._rest else memoryview(data)
        out = bytearray(self._header)
        self._header = b""
        whole = len(plain) - len(plain) % _XERIAL_BLOCK_SIZE_BYTES
        for start in range(0, whole, _XERIAL_BLOCK_SIZE_BYTES):
            self._write_block(out, plain[start : start + _XERIAL_BLOCK_SIZE_BYTES])
        self._rest = bytes(plain[whole:])
        return bytes(out)

    def flush(self) -> bytes:
        out = bytearray(self._header)
        if self._rest:
            self._write_block(out, memoryview(self._rest))
        return bytes(out)

    def _write_block(self, out: bytearray, plain: memoryview) -> None:
        block = self._snappy.compress_raw(plain)
        out += _INT32.pack(len(block))
        out += block


class _Lz4Writer:
    def __init__(self, level: int | None) -> None:
        from lz4 import frame

        self._compressor = frame.LZ4FrameCompressor(
            compression_level=0 if level in (None, _LZ4_LEVEL_DEFAULT) else level,
            block_size=frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
        )
        self._start: bytes | None = None

    def compress(self, data: Buffer, /) -> bytes:
        piece: bytes = self._begin() + self._compressor.compress(data)
        return piece

    def flush(self) -> bytes:
        piece: bytes = self._begin() + self._compressor.flush()
        return piece

    def _begin(self) -> bytes:
        if self._start is None:
            self._start = self._compressor.begin()
            return self._start
        return b""


def _open_zstd(level: int | None) -> Compressor:
    zstd = zstd_module()
    parameter = zstd.CompressionParameter
    if level is None or level < _ZSTD_LARGE_LEVEL_MIN:
        small: Compressor = zstd.ZstdCompressor(level)
        return small
    options = {parameter.compression_level: level, parameter.window_log: 22, parameter.chain_log: 23}
    large: Compressor = zstd.ZstdCompressor(options=options | {parameter.hash_log: 22})
    return large


_READERS: tuple[Callable[[Buffer, int], Decompressor], ...] = (
    PlainReader,
    GzipReader,
    SnappyReader,
    Lz4Reader,
    ZstdReader,
)
_WRITERS: tuple[Callable[[int | None], Compressor], ...] = (
    _PlainWriter,
    _open_gzip,
    _SnappyWriter,
    _Lz4Writer,
    _open_zstd,
)

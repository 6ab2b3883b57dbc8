"""Writers of compressed records, piece by piece; `compression` has the rows that name them.

The output can be read by Java's and librdkafka's clients: snappy in xerial's framing; lz4 in independent blocks of
64 KiB, because Java cannot read linked ones. ``level`` is the codec's own, None Kafka's default.

The codecs' libraries are imported when first used: a node that only passes batches on never loads them.
"""

from struct import Struct
from typing import Final, Protocol

from ottla.ports import Buffer
from ottla.wire.records.decompression import GZIP_WINDOW_BITS, XERIAL_MAGIC, zstd_module

_XERIAL_HEADER: Final = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_SIZE_BYTES: Final = 32 * 1024
_LZ4_LEVEL_DEFAULT: Final = 9
"""Kafka's default level is the fast compressor (Lz4Compression), level 0 of the library."""
_ZSTD_LARGE_LEVEL_MIN: Final = 17
"""From this level on, zstd would take up to 700 MiB for input of unknown size."""

_INT32 = Struct(">i")


class Compressor(Protocol):
    """A writer of the compressed records of one batch."""

    def compress(self, data: Buffer, /) -> bytes:
        """Compress the next bytes; return the output so far available."""

    def flush(self) -> bytes:
        """Return the rest of the output; called once, at the end."""


class PlainWriter:
    """Writer of uncompressed records."""

    def __init__(self, level: int | None) -> None:
        pass

    def compress(self, data: Buffer, /) -> bytes:
        return bytes(data)

    def flush(self) -> bytes:
        return b""


def open_gzip(level: int | None) -> Compressor:
    """Return a writer of one gzip member."""
    import zlib

    return zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)


class SnappyWriter:
    """Writes blocks of 32 KiB; a rest waits for more bytes."""

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


class Lz4Writer:
    """Writes one frame of independent blocks of 64 KiB."""

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


def open_zstd(level: int | None) -> Compressor:
    """Return a writer of one frame; at high levels with a memory limit, as zstd does not know the input's size."""
    zstd = zstd_module()
    parameter = zstd.CompressionParameter
    if level is None or level < _ZSTD_LARGE_LEVEL_MIN:
        small: Compressor = zstd.ZstdCompressor(level)
        return small
    options = {parameter.compression_level: level, parameter.window_log: 22, parameter.chain_log: 23}
    large: Compressor = zstd.ZstdCompressor(options=options | {parameter.hash_log: 22})
    return large

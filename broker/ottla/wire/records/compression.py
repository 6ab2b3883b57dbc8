"""`CODECS`: the compression codecs of record batches, one row each; written whole or in pieces, read within a limit.

A codec is added here: its number and name in `Compression`, its reader (`decompression`), its writer (`compressors`)
and its levels. The memory that it takes at a high level and its shortcuts are in its row as well, so that no other
module distinguishes codecs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer
from ottla.wire.records.compressors import (
    Compressor,
    Lz4Writer,
    PlainWriter,
    SnappyWriter,
    open_gzip,
    open_zstd,
)
from ottla.wire.records.decompression import (
    GZIP_WINDOW_BITS,
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

BUFFER_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest buffer of a reader: the window of zstd."""


class Compression(IntEnum):
    """Attribute bits 0-2 of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name in ``compression.type`` and tools."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """One row.

    Attributes:
        open_compressor: given a level or None, starts a writer.
        open_decompressor: given the bytes and the most that may be buffered, starts a reader.
        levels: the lowest and the highest, of ``compression.NAME.level``; None if the codec has none.
        large_level_min: from this level on a writer takes much more memory; None if no level does.
        compress_whole: compresses all bytes at once, if that is better than a writer.
        decompress_single: a faster function for one member or frame, the usual case: given the bytes and the size
            limit, it returns the decompressed bytes; None if there are several, or they are invalid.
        has_whole_blocks: a reader returns whole blocks of any size, so ``buffer_bytes_max`` bounds the blocks.
        correct_magic_0: corrects an error of writers of magic 0.
    """

    open_compressor: Callable[[int | None], Compressor]
    open_decompressor: Callable[[Buffer, int], Decompressor]
    levels: tuple[int, int] | None = None
    large_level_min: int | None = None
    compress_whole: Callable[[Buffer, int | None], bytes] | None = None
    decompress_single: Callable[[Buffer, int], bytes | None] | None = None
    has_whole_blocks: bool = False
    correct_magic_0: Callable[[Buffer], Buffer] | None = None

    def is_large_at(self, level: int | None) -> bool:
        """Return whether a writer at ``level`` takes much more memory than others."""
        return self.large_level_min is not None and level is not None and level >= self.large_level_min


def compress(kind: Compression, data: Buffer, *, level: int | None = None) -> bytes:
    """Return ``data`` compressed so that Java's and librdkafka's clients can read it.

    Args:
        kind: the codec; NONE copies.
        data: any contiguous bytes.
        level: the codec's own (gzip 1..9, lz4 1..17, zstd -131072..22); None is Kafka's default.
    """
    codec = CODECS[kind]
    if codec.compress_whole is not None:
        return codec.compress_whole(data, level)
    writer = codec.open_compressor(level)
    return writer.compress(data) + writer.flush()


def decompress(kind: Compression, data: Buffer, *, size_bytes_max: int, magic: int = 2) -> bytes:
    """Return ``data`` decompressed.

    Args:
        kind: the codec; NONE copies.
        data: any contiguous bytes.
        size_bytes_max: limit of the decompressed size; memory stays below this plus one block.
        magic: the format of the batch or message. Magic 0 wrote a wrong checksum into the lz4 frame's descriptor
            (KAFKA-3160), which is ignored for it.

    Raises:
        CorruptRecordError: the bytes are not in the codec's format, end too early, or decompress to more.
    """
    codec = CODECS[kind]
    if codec.correct_magic_0 is not None and magic == 0:
        data = codec.correct_magic_0(data)
    if codec.decompress_single is not None:
        single = codec.decompress_single(data, size_bytes_max)
        if single is not None:
            return single
    # A block larger than the limit exceeds it by itself.
    buffer_bytes_max = min(size_bytes_max, BUFFER_SIZE_BYTES_MAX) if codec.has_whole_blocks else BUFFER_SIZE_BYTES_MAX
    return decompress_bounded(kind, data, size_bytes_max=size_bytes_max, buffer_bytes_max=buffer_bytes_max)


def decompress_bounded(kind: Compression, data: Buffer, *, size_bytes_max: int, buffer_bytes_max: int) -> bytes:
    """Return ``data`` decompressed, by a reader that buffers at most ``buffer_bytes_max`` (see `open_decompressor`).

    Raises:
        CorruptRecordError: as `decompress`; also if the codec needs a larger buffer.
    """
    codec = CODECS[kind]
    try:
        reader = codec.open_decompressor(data, buffer_bytes_max)
        piece = b"" if reader.is_at_end else reader.read(size_bytes_max + 1)
        if not reader.is_at_end:
            piece = _read_rest(reader, piece, size_bytes_max)
    except BufferLimitError:
        raise too_large(kind, len(data), size_bytes_max) from None
    if len(piece) > size_bytes_max:
        raise too_large(kind, len(data), size_bytes_max)
    return piece


def _read_rest(reader: Decompressor, first: bytes, size_bytes_max: int) -> bytes:
    """Read the bytes after ``first`` until the end, or until they exceed ``size_bytes_max``."""
    pieces, size_bytes = [first], len(first)
    while not reader.is_at_end and size_bytes <= size_bytes_max:
        piece = reader.read(size_bytes_max + 1 - size_bytes)
        pieces.append(piece)
        size_bytes += len(piece)
    return b"".join(pieces)


def open_decompressor(
    kind: Compression, data: Buffer, *, buffer_bytes_max: int = BUFFER_SIZE_BYTES_MAX
) -> Decompressor:
    """Return a reader of the decompressed ``data``.

    ``buffer_bytes_max`` bounds the window of zstd and the blocks of snappy; the other codecs need less than 10 MiB.

    Raises:
        CorruptRecordError: the bytes are not in the codec's format.
    """
    return CODECS[kind].open_decompressor(data, buffer_bytes_max)


def too_large(kind: Compression, compressed_size_bytes: int, size_bytes_max: int) -> CorruptRecordError:
    """Return the error for records that decompress to more than ``size_bytes_max``."""
    name = kind.label if kind else "plain records"
    return CorruptRecordError(
        f"{compressed_size_bytes} bytes of {name} hold more than the allowed {size_bytes_max} bytes"
    )


def open_compressor(kind: Compression, level: int | None = None) -> Compressor:
    """Return a writer; see `compress`."""
    return CODECS[kind].open_compressor(level)


# --- at once, for small data or a known size


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    """Compress at once: zstd then chooses its memory by the size of the input."""
    compressed: bytes = zstd_module().compress(data, level)
    return compressed


def _decompress_gzip_member(data: Buffer, size_bytes_max: int) -> bytes | None:
    import zlib

    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        piece = member.decompress(data, size_bytes_max + 1)
    except zlib.error:  # the reader raises the right error
        return None
    return piece if member.eof and not member.unused_data and len(piece) <= size_bytes_max else None


def _decompress_zstd_frame(data: Buffer, size_bytes_max: int) -> bytes | None:
    zstd = zstd_module()
    frame = zstd.ZstdDecompressor()
    try:
        piece: bytes = frame.decompress(data, max_length=size_bytes_max + 1)
    except zstd.ZstdError:  # the reader raises the right error
        return None
    return piece if frame.eof and not frame.unused_data and len(piece) <= size_bytes_max else None


CODECS: Final[Mapping[Compression, Codec]] = {
    Compression.NONE: Codec(open_compressor=PlainWriter, open_decompressor=PlainReader),
    Compression.GZIP: Codec(
        open_compressor=open_gzip,
        open_decompressor=GzipReader,
        levels=(1, 9),
        decompress_single=_decompress_gzip_member,
    ),
    Compression.SNAPPY: Codec(open_compressor=SnappyWriter, open_decompressor=SnappyReader, has_whole_blocks=True),
    Compression.LZ4: Codec(
        open_compressor=Lz4Writer,
        open_decompressor=Lz4Reader,
        levels=(1, 17),
        # Magic 0 wrote a wrong checksum into the frame's descriptor (KAFKA-3160).
        correct_magic_0=with_correct_checksum,
    ),
    Compression.ZSTD: Codec(
        open_compressor=open_zstd,
        open_decompressor=ZstdReader,
        levels=(-131_072, 22),
        large_level_min=10,
        compress_whole=_compress_zstd,
        decompress_single=_decompress_zstd_frame,
    ),
}

"""Readers of compressed records: bounded pieces, bounded buffers, bounded work per call."""

import gzip
import os
import sys

import pytest

from ottla.wire.records.compression import Compression, compress, decompress, open_compressor, open_decompressor
from ottla.wire.records.decompression import BufferLimitError, Decompressor
from peak_memory import peak_bytes_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

EVERY = pytest.mark.parametrize("kind", list(Compression), ids=lambda kind: kind.label)
TEXT = b"".join(b"%d bottles of beer on the wall, " % number for number in range(30_000))


def read_all(reader: Decompressor) -> bytes:
    pieces = []
    while not reader.is_at_end:
        pieces.append(reader.read(65_536))
    return b"".join(pieces)


@EVERY
@pytest.mark.parametrize("size_bytes", [1_000, 65_536])
def test_pieces_concatenate_to_the_data(kind: Compression, size_bytes: int) -> None:
    reader = open_decompressor(kind, compress(kind, TEXT))
    pieces = []
    while not reader.is_at_end:
        pieces.append(reader.read(size_bytes))

    assert b"".join(pieces) == TEXT
    # Snappy's blocks of 32 KiB are returned whole.
    assert max(map(len, pieces)) <= max(size_bytes, 32_768 if kind is Compression.SNAPPY else 0)


@EVERY
@pytest.mark.parametrize("size_bytes", [1_000, 50_000])
def test_data_compressed_in_pieces_decompresses_to_the_data(kind: Compression, size_bytes: int) -> None:
    writer = open_compressor(kind)
    written = [writer.compress(TEXT[at : at + size_bytes]) for at in range(0, len(TEXT), size_bytes)]
    compressed = b"".join(written) + writer.flush()

    assert decompress(kind, compressed, size_bytes_max=len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("kind", "member"),
    [
        (Compression.GZIP, gzip.compress(b"")),
        (Compression.ZSTD, zstd.compress(b"")),
        (Compression.SNAPPY, b"\0\0\0\1\0"),
    ],
    ids=["gzip", "zstd", "snappy"],
)
def test_one_read_takes_few_of_very_many_empty_members(kind: Compression, member: bytes) -> None:
    """Their decoders copy the bytes after a member; with a whole batch as input that took quadratic time."""
    start = b"\x82SNAPPY\x00" + bytes.fromhex("0000000100000001") if kind is Compression.SNAPPY else b""
    data = start + member * 20_000
    reader = open_decompressor(kind, data)
    reads = 0
    while not reader.is_at_end:
        assert reader.read(1_000) == b""
        reads += 1

    assert reads == 100
    assert decompress(kind, data, size_bytes_max=0) == b""


def test_zstd_window_above_the_bound_is_reported_before_it_is_allocated() -> None:
    parameter = zstd.CompressionParameter
    frame = zstd.ZstdCompressor(options={parameter.compression_level: 1, parameter.window_log: 25})
    data = frame.compress(os.urandom(1_000)) + frame.flush()

    with pytest.raises(BufferLimitError):
        read_all(open_decompressor(Compression.ZSTD, data, buffer_bytes_max=1 << 23))
    assert len(read_all(open_decompressor(Compression.ZSTD, data, buffer_bytes_max=1 << 25))) == 1_000


def test_snappy_block_above_the_bound_is_reported_before_it_is_decompressed() -> None:
    data = compress(Compression.SNAPPY, bytes(32_768))

    with pytest.raises(BufferLimitError):
        open_decompressor(Compression.SNAPPY, data, buffer_bytes_max=32_767).read(10)
    assert len(open_decompressor(Compression.SNAPPY, data, buffer_bytes_max=32_768).read(10)) == 32_768


@pytest.mark.parametrize("kind", [Compression.GZIP, Compression.LZ4, Compression.SNAPPY], ids=lambda kind: kind.label)
def test_memory_does_not_grow_with_the_decompressed_size(kind: Compression) -> None:
    data = compress(kind, bytes(16 << 20))
    reader = open_decompressor(kind, data)

    def read() -> None:
        size_bytes = 0
        while not reader.is_at_end:
            size_bytes += len(reader.read(65_536))
        assert size_bytes == 16 << 20

    assert peak_bytes_of(read) < 1 << 20


@pytest.mark.parametrize("level", [17, 22])
def test_high_levels_of_zstd_take_bounded_windows(level: int) -> None:
    """With an input of unknown size, level 22 would take 700 MiB and make readers take 128 MiB."""
    writer = open_compressor(Compression.ZSTD, level)
    compressed = writer.compress(TEXT) + writer.flush()

    assert read_all(open_decompressor(Compression.ZSTD, compressed, buffer_bytes_max=1 << 23)) == TEXT

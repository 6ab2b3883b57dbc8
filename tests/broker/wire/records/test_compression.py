"""The codecs accept the formats of Java's streams, within their memory limits."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.produce import COMPRESSIONS
from ottla.config.topic_keys import TOPIC_KEYS
from ottla.errors import CorruptRecordError, ErrorCode
from ottla.wire.records import Compression, compress, decompress
from ottla.wire.records.compression import CODECS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1 << 20
BOMB_SIZE_BYTES = 64 << 20
TEXT = b"All happy families are alike; each unhappy family is unhappy in its own way. " * 2_000
EVERY = pytest.mark.parametrize("kind", list(Compression), ids=lambda kind: kind.label)
REAL = pytest.mark.parametrize("kind", list(Compression)[1:], ids=lambda kind: kind.label)
XERIAL_HEADER = b"\x82SNAPPY\x00" + bytes.fromhex("0000000100000001")


def xerial(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@pytest.mark.parametrize(
    ("kind", "number", "label"),
    [
        (Compression.NONE, 0, "none"),
        (Compression.GZIP, 1, "gzip"),
        (Compression.SNAPPY, 2, "snappy"),
        (Compression.LZ4, 3, "lz4"),
        (Compression.ZSTD, 4, "zstd"),
    ],
)
def test_numbers_and_names_are_kafkas(kind: Compression, number: int, label: str) -> None:
    assert kind == number
    assert kind.label == label
    assert Compression.from_label(label) is kind


@pytest.mark.parametrize("label", ["", "GZIP", "producer", "brotli"])
def test_unknown_name_is_rejected_with_the_known_ones(label: str) -> None:
    with pytest.raises(ValueError, match="choose none, gzip, snappy, lz4, zstd"):
        Compression.from_label(label)


@EVERY
@given(data=st.binary(max_size=200) | st.integers(0, 200_000).map(bytes))
def test_data_round_trips(kind: Compression, data: bytes) -> None:
    assert decompress(kind, compress(kind, data), size_bytes_max=len(data)) == data


@EVERY
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview], ids=lambda buffer: buffer.__name__)
def test_any_buffer_is_taken(kind: Compression, buffer: type) -> None:
    compressed = compress(kind, buffer(TEXT))

    assert decompress(kind, buffer(compressed), size_bytes_max=LIMIT) == TEXT


@REAL
def test_repetitive_data_gets_smaller(kind: Compression) -> None:
    assert len(compress(kind, TEXT)) < len(TEXT) / 10


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        pytest.param(Compression.GZIP, (1, 9), id="gzip"),
        pytest.param(Compression.LZ4, (1, 17), id="lz4"),
        pytest.param(Compression.ZSTD, (-131_072, 1, 22), id="zstd"),
    ],
)
def test_lowest_and_highest_compression_levels_of_kafka_work(kind: Compression, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(kind, compress(kind, TEXT, level=level), size_bytes_max=LIMIT) == TEXT


def test_kafkas_default_lz4_level_is_the_fast_compressor() -> None:
    data = b" ".join(b"%d families" % (number * number) for number in range(5_000))

    assert compress(Compression.LZ4, data, level=9) == compress(Compression.LZ4, data)
    assert len(compress(Compression.LZ4, data, level=10)) < len(compress(Compression.LZ4, data))


@EVERY
def test_decompressed_size_limit_is_exact(kind: Compression) -> None:
    compressed = compress(kind, TEXT)

    assert decompress(kind, compressed, size_bytes_max=len(TEXT)) == TEXT
    with pytest.raises(CorruptRecordError, match=f"more than the allowed {len(TEXT) - 1} bytes"):
        decompress(kind, compressed, size_bytes_max=len(TEXT) - 1)


@EVERY
def test_limit_of_zero_accepts_only_empty_data(kind: Compression) -> None:
    assert decompress(kind, compress(kind, b""), size_bytes_max=0) == b""
    with pytest.raises(CorruptRecordError, match="more than the allowed 0 bytes"):
        decompress(kind, compress(kind, b"x"), size_bytes_max=0)


def bombs() -> dict[str, tuple[Compression, Callable[[], bytes]]]:
    zeros = bytes(BOMB_SIZE_BYTES)
    one_block = bytes(4 << 20)
    return {
        "gzip": (Compression.GZIP, lambda: compress(Compression.GZIP, zeros)),
        "gzip-members": (Compression.GZIP, lambda: gzip.compress(bytes(LIMIT // 4), mtime=0) * 256),
        "snappy": (Compression.SNAPPY, lambda: compress(Compression.SNAPPY, zeros)),
        "snappy-one-block": (Compression.SNAPPY, lambda: xerial(raw_snappy(zeros))),
        "snappy-bare": (Compression.SNAPPY, lambda: raw_snappy(zeros)),
        "lz4": (Compression.LZ4, lambda: compress(Compression.LZ4, zeros)),
        "lz4-4-mib-blocks": (Compression.LZ4, lambda: lz4.frame.compress(zeros, block_size=7)),
        "lz4-one-block": (Compression.LZ4, lambda: lz4.frame.compress(one_block, block_size=7)),
        "zstd": (Compression.ZSTD, lambda: compress(Compression.ZSTD, zeros)),
        "zstd-frames": (Compression.ZSTD, lambda: zstd.compress(bytes(LIMIT // 4)) * 256),
        "zstd-long-window": (
            Compression.ZSTD,
            lambda: zstd.compress(zeros, options={zstd.CompressionParameter.window_log: 27}),
        ),
    }


DEFUSE = """
import sys
from ottla.errors import CorruptRecordError
from ottla.wire.records import Compression, compress, decompress

def peak_bytes():
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024

kind, limit = Compression.from_label(sys.argv[1]), int(sys.argv[2])
bomb = sys.stdin.buffer.read()
decompress(kind, compress(kind, b"the library is loaded"), size_bytes_max=limit)
before_bytes = peak_bytes()
try:
    decompress(kind, bomb, size_bytes_max=limit)
except CorruptRecordError as error:
    print(peak_bytes() - before_bytes, error.message)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize("name", bombs().keys())
def test_decompression_bomb_is_rejected_before_memory_grows(name: str) -> None:
    kind, make = bombs()[name]
    bomb = make()

    command = [sys.executable, "-c", DEFUSE, kind.label, str(LIMIT)]
    ran = subprocess.run(command, input=bomb, capture_output=True, check=True)

    grown_bytes, reason = ran.stdout.decode().split(" ", 1)
    assert f"more than the allowed {LIMIT} bytes" in reason
    # The pieces, the result, and the codec's own window or block of at most 4 MiB; the bomb has 64 MiB.
    assert int(grown_bytes) < 3 * LIMIT + 2 * (4 << 20)


@REAL
@pytest.mark.parametrize("size_bytes", [0, 1, 5, 500, 70_000])
def test_data_truncated_anywhere_is_rejected(kind: Compression, size_bytes: int) -> None:
    compressed = compress(kind, TEXT[:size_bytes])

    for cut in range(len(compressed)):
        if kind is Compression.SNAPPY and cut in whole_blocks(compressed):
            continue
        with pytest.raises(CorruptRecordError) as error:
            decompress(kind, compressed[:cut], size_bytes_max=LIMIT)
        assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def whole_blocks(compressed: bytes) -> set[int]:
    """Return where xerial's blocks end: it has no end mark, so there the data only gets shorter."""
    ends, position = {len(XERIAL_HEADER)}, len(XERIAL_HEADER)
    while position < len(compressed):
        position += 4 + int.from_bytes(compressed[position : position + 4], "big")
        ends.add(position)
    return ends


@REAL
@given(garbage=st.binary(max_size=100))
def test_garbage_is_data_or_a_corrupt_record_error(kind: Compression, garbage: bytes) -> None:
    for data in (garbage, compress(kind, b"x" * 50)[:20] + garbage):
        try:
            assert len(decompress(kind, data, size_bytes_max=LIMIT)) <= LIMIT
        except CorruptRecordError:
            continue


def test_gzip_members_follow_each_other_and_other_bytes_are_ignored() -> None:
    members = gzip.compress(b"first ") + gzip.compress(b"second")

    assert decompress(Compression.GZIP, members, size_bytes_max=12) == b"first second"
    assert decompress(Compression.GZIP, members + b"\0rest", size_bytes_max=12) == b"first second"
    with pytest.raises(CorruptRecordError):
        decompress(Compression.GZIP, members, size_bytes_max=11)


def test_zstd_frames_follow_each_other() -> None:
    frames = zstd.compress(b"first ") + zstd.compress(b"second")

    assert decompress(Compression.ZSTD, frames, size_bytes_max=12) == b"first second"
    with pytest.raises(CorruptRecordError):
        decompress(Compression.ZSTD, frames, size_bytes_max=11)
    with pytest.raises(CorruptRecordError):
        decompress(Compression.ZSTD, frames + b"rest", size_bytes_max=100)


def test_bytes_after_an_lz4_frame_are_ignored() -> None:
    frame = compress(Compression.LZ4, b"frame")

    assert decompress(Compression.LZ4, frame + b"rest", size_bytes_max=5) == b"frame"


@pytest.mark.parametrize("options", [{"block_linked": True}, {"content_checksum": True}, {"store_size": True}])
def test_other_lz4_frames_are_read(options: dict[str, bool]) -> None:
    assert decompress(Compression.LZ4, lz4.frame.compress(TEXT, **options), size_bytes_max=LIMIT) == TEXT


def test_our_lz4_frames_have_what_java_can_read() -> None:
    info = lz4.frame.get_frame_info(compress(Compression.LZ4, TEXT))

    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024
    assert not info["content_checksum"]
    assert info["content_size"] == 0


def test_snappy_is_written_in_xerials_blocks_of_32_kib() -> None:
    compressed = compress(Compression.SNAPPY, TEXT)

    assert compressed.startswith(XERIAL_HEADER)
    assert len(whole_blocks(compressed)) - 1 == -(-len(TEXT) // (32 * 1024))
    assert compress(Compression.SNAPPY, b"") == XERIAL_HEADER


@pytest.mark.parametrize(
    "compressed",
    [
        pytest.param(raw_snappy(b"first second"), id="bare-block"),
        pytest.param(xerial(raw_snappy(b"first second")), id="one-block"),
        pytest.param(xerial(raw_snappy(b"first "), raw_snappy(b"second")), id="two-blocks"),
        pytest.param(xerial(raw_snappy(b"first ")) + xerial(raw_snappy(b"second")), id="two-streams"),
        pytest.param(xerial(raw_snappy(b"first "), raw_snappy(b""), raw_snappy(b"second")), id="empty-block"),
    ],
)
def test_every_framing_of_snappy_is_read(compressed: bytes) -> None:
    assert decompress(Compression.SNAPPY, compressed, size_bytes_max=12) == b"first second"


@pytest.mark.parametrize(
    ("compressed", "reason"),
    [
        pytest.param(XERIAL_HEADER + b"\xff\xff\xff\xff", "block of -1 bytes", id="negative-block"),
        pytest.param(XERIAL_HEADER + b"\x7f\xff\xff\xffab", "block of 2147483647 bytes", id="2-gib-block"),
        pytest.param(XERIAL_HEADER + b"\0\0", "ends before", id="half-a-length"),
        pytest.param(XERIAL_HEADER[:15], "ends before", id="half-a-header"),
        pytest.param(xerial(b"\xff\xff\xff\xff\x0fabc"), "more than the allowed", id="claims-4-gib"),
        pytest.param(xerial(b"\x80\x80\x20abc"), "claims to hold 524288", id="claims-within-the-limit"),
        pytest.param(xerial(b"\xff\xff\xff\xff\xff\xff"), "cannot be decompressed", id="no-length"),
        pytest.param(xerial(b""), "cannot be decompressed", id="no-block"),
        pytest.param(xerial(b"\x05\xff\xff\xff\xff"), "cannot be decompressed", id="no-elements"),
    ],
)
def test_invalid_snappy_is_rejected(compressed: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        decompress(Compression.SNAPPY, compressed, size_bytes_max=LIMIT)


def test_codecs_are_loaded_on_first_use() -> None:
    code = (
        "import sys, ottla.wire.records as records\n"
        "data = records.build_batch([records.Record(0, 0, None, b'v')])\n"
        "records.read_records(records.parse_batch(data), size_bytes_max=100)\n"
        "print([name for name in ('cramjam', 'lz4', 'backports.zstd', 'compression.zstd') if name in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def test_every_codec_has_a_row_whose_levels_are_those_of_the_configuration() -> None:
    assert list(CODECS) == list(Compression)
    for kind, codec in CODECS.items():
        key = TOPIC_KEYS.get(f"compression.{kind.label}.level")
        levels = None if key is None else tuple(int(bound) for bound in key.bounds.split("|")[0].split(".."))
        assert levels == codec.levels


def test_command_line_offers_every_codec() -> None:
    assert list(COMPRESSIONS) == [codec.label for codec in Compression]

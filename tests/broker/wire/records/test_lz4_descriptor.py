"""The descriptor's checksum is corrected, for every form of descriptor."""

import lz4.frame
import pytest

from ottla.wire.records.lz4_descriptor import with_correct_checksum, xxhash32_of_short


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", 0x02CC5D05, id="nothing"),
        pytest.param(b"a", 0x550D7456, id="one-byte"),
        pytest.param(b"abc", 0x32D153FF, id="three-bytes"),
        pytest.param(b"abcd", 0xA3643705, id="a-word"),
    ],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    assert xxhash32_of_short(data) == expected


@pytest.mark.parametrize("options", [{}, {"store_size": False}, {"block_linked": False}, {"block_size": 7}])
def test_wrong_checksum_is_corrected(options: dict[str, int]) -> None:
    frame = lz4.frame.compress(b"payload" * 100, **options)
    position = 14 if options.get("store_size", True) else 6
    broken = bytearray(frame)
    broken[position] ^= 0x55

    with pytest.raises(RuntimeError):
        lz4.frame.decompress(broken)
    assert with_correct_checksum(broken) == frame
    assert with_correct_checksum(frame) == frame


@pytest.mark.parametrize("size_bytes", range(7))
def test_too_short_frame_is_not_changed(size_bytes: int) -> None:
    frame = lz4.frame.compress(b"payload", store_size=False)[:size_bytes]

    assert with_correct_checksum(frame) == frame

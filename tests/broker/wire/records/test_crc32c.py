"""CRC-32C: the known values, the same from both implementations, for every kind of buffer and in pieces."""

from importlib.machinery import PathFinder

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records.crc32c import (
    Checksum,
    choose_checksum,
    crc32c,
    hardware_checksum,
    portable_checksum,
)

IMPLEMENTATIONS = pytest.mark.parametrize(
    "checksum",
    [pytest.param(hardware_checksum(), id="hardware"), pytest.param(portable_checksum(), id="portable")],
)


@IMPLEMENTATIONS
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"123456789", 0xE3069283, id="check-value"),
        pytest.param(bytes(32), 0x8A9136AA, id="rfc3720-zeros"),
        pytest.param(b"\xff" * 32, 0x62A8AB43, id="rfc3720-ones"),
        pytest.param(bytes(range(32)), 0x46DD794E, id="rfc3720-ascending"),
        pytest.param(bytes(reversed(range(32))), 0x113FDB5C, id="rfc3720-descending"),
    ],
)
def test_known_values(checksum: Checksum, data: bytes, expected: int) -> None:
    assert checksum(data) == expected


@IMPLEMENTATIONS
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(checksum: Checksum, buffer: type) -> None:
    assert checksum(buffer(b"123456789")) == 0xE3069283
    assert checksum(memoryview(buffer(b"x123456789x"))[1:-1]) == 0xE3069283


@given(head=st.binary(max_size=300), tail=st.binary(max_size=300))
def test_both_agree_in_one_go_and_in_pieces(head: bytes, tail: bytes) -> None:
    hardware, portable = hardware_checksum(), portable_checksum()

    assert hardware(head + tail) == portable(head + tail)
    assert hardware(tail, hardware(head)) == portable(tail, portable(head)) == hardware(head + tail)


def test_hardware_checksum_is_chosen_if_installed() -> None:
    assert crc32c.__module__ != "crcmod.crcmod"


@pytest.mark.parametrize("missing", ["crc32c", "_crc32c"])
def test_portable_checksum_is_chosen_without_the_hardware_one(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    find_spec = PathFinder.find_spec
    monkeypatch.setattr(
        PathFinder,
        "find_spec",
        lambda name, path=None, target=None: None if name == missing else find_spec(name, path, target),
    )

    with pytest.raises(ImportError, match="crc32c"):
        hardware_checksum()
    assert choose_checksum()(b"123456789") == 0xE3069283

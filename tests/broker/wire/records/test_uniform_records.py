"""The columns detect any wrong bit of a record's numbers, anywhere in a batch."""

from collections.abc import Callable, Iterator

import pytest

from ottla.errors import InvalidRecordError
from ottla.wire.records import are_contiguous, parse_batch, validate_plain_records
from ottla.wire.records.record_layout import RecordLayout, read_layout
from ottla.wire.records.varint import encode_varint

Seal = Callable[..., bytes]
COUNT = 150
PLACES = (0, 1, 2, 41, 62, 63, 64, 65, 66, 100, 148, 149)
HEADER = encode_varint(1) + encode_varint(5) + b"trace" + encode_varint(16) + b"\1" * 16


def encode(index: int, key: bytes | None, value_size: int, timestamp_delta_ms: int, headers: bytes) -> bytes:
    # Values and keys have bytes that are valid sizes, so that a number read at a wrong position looks valid.
    body = b"\0" + encode_varint(timestamp_delta_ms) + encode_varint(index)
    body += b"\1" if key is None else encode_varint(len(key)) + key
    body += encode_varint(value_size) + b"\0" * value_size + headers
    return encode_varint(len(body)) + body


def wide(index: int) -> int:
    return 80 + index * 7 % 50


def narrow(index: int) -> int:
    return 1 + index * 7 % 40


def mixed(index: int) -> int:
    return 30 + index * 7 % 60


BATCHES = {
    "equal": (None, lambda index: 100, 0, b"\0"),
    "equal-two-byte-timestamps": (b"\0" * 3, lambda index: 100, 99, b"\0"),
    "equal-headers": (b"\0" * 3, lambda index: 20, 0, HEADER),
    "wide": (None, wide, 0, b"\0"),
    "wide-keys": (b"\0" * 16, wide, 0, b"\0"),
    "wide-three-byte-timestamps": (None, wide, 9_999, b"\0"),
    "wide-headers": (b"\2\2", wide, 99, HEADER),
    "narrow": (None, narrow, 0, b"\0"),
    "narrow-keys": (b"\2" * 4, narrow, 99, b"\0"),
    "mixed": (b"\2" * 4, mixed, 0, b"\0"),
}


@pytest.fixture(params=list(BATCHES))
def parts(request: pytest.FixtureRequest) -> list[bytes]:
    """The records of a valid batch."""
    key, value_size, timestamp_delta_ms, headers = BATCHES[request.param]
    return [encode(index, key, value_size(index), timestamp_delta_ms, headers) for index in range(COUNT)]


def is_valid(seal: Seal, payload: bytes) -> bool:
    try:
        validate_plain_records(parse_batch(seal(payload, record_count=COUNT)), payload)
    except InvalidRecordError:
        return False
    return True


def layout_of(part: bytes, index: int) -> RecordLayout:
    found = read_layout(part, 0, index)
    assert found is not None
    return found


def numbers_of(layout: RecordLayout) -> list[int]:
    between = range(layout.timestamp, layout.key_size[0])
    return [*layout.size, *between, *layout.key_size, *layout.value_size, *layout.headers]


def flips(parts: list[bytes], index: int, places: list[tuple[int, ...]]) -> Iterator[bytes]:
    """Yield the batch with one bit flipped, the same one in all of some bytes of a record."""
    before, after = b"".join(parts[:index]), b"".join(parts[index + 1 :])
    for together in places:
        for bit in range(8):
            changed = bytearray(parts[index])
            for at in together:
                changed[at] ^= 1 << bit
            yield before + changed + after


@pytest.mark.parametrize("index", PLACES)
def test_one_flipped_bit_of_a_number_is_detected(seal: Seal, parts: list[bytes], index: int) -> None:
    valid = b"".join(parts)
    assert are_contiguous(valid, COUNT)
    places = [(at,) for at in numbers_of(layout_of(parts[index], index))]

    for changed in flips(parts, index, places):
        assert not are_contiguous(changed, COUNT) or is_valid(seal, changed)


@pytest.mark.parametrize("index", PLACES)
def test_two_equally_wrong_sizes_are_detected(seal: Seal, parts: list[bytes], index: int) -> None:
    assert are_contiguous(b"".join(parts), COUNT)
    layout = layout_of(parts[index], index)
    places = [(first, second) for first in layout.size for second in (*layout.key_size, *layout.value_size)]
    places += [(first, second) for first in layout.key_size for second in layout.value_size]

    for changed in flips(parts, index, places):
        assert not are_contiguous(changed, COUNT) or is_valid(seal, changed)


@pytest.mark.parametrize("index", PLACES)
@pytest.mark.parametrize("more", [-1, 1], ids=["shorter", "longer"])
def test_key_and_value_of_other_sizes_with_an_equal_sum_are_valid(
    seal: Seal, parts: list[bytes], index: int, more: int
) -> None:
    layout = layout_of(parts[index], index)
    at = layout.key_size[0]
    changed = bytearray(parts[index])
    changed[at] = (changed[at] + 2 * more) % 0x80
    payload = b"".join([*parts[:index], bytes(changed), *parts[index + 1 :]])

    assert not are_contiguous(payload, COUNT) or is_valid(seal, payload)


def test_form_applies_to_one_number_of_records(parts: list[bytes]) -> None:
    valid = b"".join(parts)
    for _ in range(2):
        assert are_contiguous(valid, COUNT)
        assert not are_contiguous(valid, COUNT - 1)
        assert not are_contiguous(valid, COUNT + 1)


@pytest.mark.parametrize("value_size", [lambda index: 100, wide, narrow], ids=["equal", "wide", "narrow"])
def test_headers_without_keys_in_all_records_are_rejected(seal: Seal, value_size: Callable[[int], int]) -> None:
    headers = encode_varint(1) + encode_varint(-1) + encode_varint(16) + b"\1" * 16
    payload = b"".join(encode(index, None, value_size(index), 0, headers) for index in range(COUNT))

    assert not are_contiguous(payload, COUNT)
    assert not is_valid(seal, payload)

"""Records in pieces are checked like records as a whole, and in slices."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.wire.records import (
    Record,
    RecordsWalk,
    TooManyHeadersError,
    build_batch,
    parse_batch,
    validate_plain_records,
)
from ottla.wire.records.varint import encode_varint

BASE_MS = 1_700_000_000_000


def walk(pieces: Sequence[bytes], record_count: int, **options: int | bool) -> tuple[RecordsWalk, int]:
    """Return the walk through all of ``pieces``, and its number of slices."""
    found = RecordsWalk(record_count, **options)  # type: ignore[arg-type]
    slices = sum(1 + sum(1 for _ in found.feed(piece)) for piece in pieces)
    found.finish()
    return found, slices


def cut(data: bytes, size_bytes: int) -> list[bytes]:
    return [data[at : at + size_bytes] for at in range(0, len(data), size_bytes)]


records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp_ms=st.integers(BASE_MS - 10_000, BASE_MS + 100_000),
        key=st.none() | st.binary(max_size=100),
        value=st.none() | st.binary(max_size=300),
        headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=120,
)


@given(records=records, size_bytes=st.integers(1, 400), is_thorough=st.booleans())
def test_pieces_of_any_size_give_the_result_of_the_whole(
    records: list[Record], size_bytes: int, is_thorough: bool
) -> None:
    numbered = [record._replace(offset=index) for index, record in enumerate(records)]
    batch = parse_batch(build_batch(numbered))
    data = bytes(batch.payload)
    expected = validate_plain_records(batch, data)

    found, _ = walk(cut(data, size_bytes), len(records), is_thorough=is_thorough)

    assert batch.base_timestamp_ms + found.newest_delta == expected.max_timestamp_ms
    if is_thorough:
        assert batch.base_timestamp_ms + found.oldest_delta == expected.min_timestamp_ms
        assert tuple(found.null_key_indexes) == expected.null_key_indexes


@given(records=records, size_bytes=st.integers(1, 400), data=st.data())
def test_pieces_are_rejected_like_the_whole(records: list[Record], size_bytes: int, data: st.DataObject) -> None:
    numbered = [record._replace(offset=index) for index, record in enumerate(records)]
    batch = parse_batch(build_batch(numbered))
    payload = bytearray(batch.payload)
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    def outcome(check: Callable[[], object]) -> bool:
        try:
            check()
        except InvalidRecordError:
            return False
        return True

    whole = outcome(lambda: validate_plain_records(batch, bytes(payload)))
    in_pieces = outcome(lambda: walk(cut(bytes(payload), size_bytes), len(records), is_thorough=True))
    fast = outcome(lambda: walk(cut(bytes(payload), size_bytes), len(records)))

    assert in_pieces == fast
    # A timestamp beyond 64 bits is detected with the base timestamp only.
    assert whole == in_pieces or (in_pieces and not whole)


def large_record(index: int, *, headers: int = 0, value_bytes: int = 300_000, more: int = 0) -> bytes:
    body = b"\0" + encode_varint(7) + encode_varint(index) + encode_varint(1) + b"k"
    body += encode_varint(value_bytes) + bytes(value_bytes) + encode_varint(headers) + b"\2h\1" * headers
    return encode_varint(len(body) + more) + body


def small_record(index: int, *, key_size: int = 0, value_size: int = 0, header: bytes = b"\0") -> bytes:
    body = b"\0\0" + encode_varint(index) + encode_varint(key_size) + encode_varint(value_size) + header
    return encode_varint(len(body)) + body


@pytest.mark.parametrize("size_bytes", [1_000, 65_536, 300_010, 1 << 20])
def test_large_records_are_followed_through_the_pieces(size_bytes: int) -> None:
    data = small_record(0) + large_record(1) + small_record(2) + large_record(3, headers=5) + small_record(4)

    found, _ = walk(cut(data, size_bytes), 5)

    assert (found.index, found.newest_delta) == (5, 7)


def test_bytes_of_a_large_record_are_not_kept() -> None:
    """A batch of 3 KB may hold one record of 100 MB: memory must not grow with the record."""
    found = RecordsWalk(1)
    for piece in cut(large_record(0, value_bytes=5_000_000), 100_000):
        for _ in found.feed(piece):
            pass
        assert len(found._rest) < 100
    found.finish()

    assert found.index == 1


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(large_record(0, more=1) + b"\0", id="one-byte-more"),
        pytest.param(large_record(0, more=-1), id="one-byte-less"),
        pytest.param(large_record(1), id="offset-delta"),
        pytest.param(large_record(0)[:-1], id="cut-off"),
        pytest.param(large_record(0) + b"\0", id="a-byte-behind"),
    ],
)
def test_invalid_large_records_are_rejected(lie: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        walk(cut(lie, 65_536), 1)


@pytest.mark.parametrize("is_thorough", [False, True])
@pytest.mark.parametrize(
    ("record", "is_valid"),
    [
        pytest.param({"key_size": -1}, True, id="null-key"),
        pytest.param({"key_size": -2}, False, id="key-size-minus-two"),
        pytest.param({"key_size": -100}, False, id="key-size-minus-hundred"),
        pytest.param({"value_size": -1}, True, id="null-value"),
        pytest.param({"value_size": -2}, False, id="value-size-minus-two"),
        pytest.param({"header": b"\2\2h\1"}, True, id="null-header-value"),
        pytest.param({"header": b"\2\2h\3"}, False, id="header-value-size-minus-two"),
        pytest.param({"header": b"\2\1\1"}, False, id="null-header-key"),
        pytest.param({"header": b"\2\3\1"}, False, id="header-key-size-minus-two"),
        pytest.param({"header": b"\1"}, False, id="header-count-minus-one"),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 100, 2_000])
def test_sizes_below_minus_one_are_rejected(
    record: dict[str, int | bytes], is_valid: bool, count: int, is_thorough: bool
) -> None:
    """librdkafka never returns from a consume of such a record; JVM Kafka accepts sizes below -1 as null."""
    data = b"".join(small_record(index, **record) for index in range(count))  # type: ignore[arg-type]

    if is_valid:
        walk([data], count, is_thorough=is_thorough)
    else:
        with pytest.raises(InvalidRecordError):
            walk([data], count, is_thorough=is_thorough)


def test_headers_are_followed_in_slices_and_bounded() -> None:
    data = large_record(0, headers=10_000, value_bytes=1)

    _, slices = walk([data], 1, headers_max=10_000)
    assert slices > 50
    with pytest.raises(TooManyHeadersError):
        walk([data], 1, headers_max=9_999)


@pytest.mark.parametrize("headers_each", [1, 3, 100])
def test_headers_of_all_records_count_together(headers_each: int) -> None:
    headers = encode_varint(headers_each) + b"\2h\1" * headers_each
    data = b"".join(small_record(index, header=headers) for index in range(200))

    walk([data], 200, headers_max=200 * headers_each)
    with pytest.raises(TooManyHeadersError):
        walk([data], 200, headers_max=200 * headers_each - 1)


@pytest.mark.parametrize("is_thorough", [False, True])
def test_records_that_differ_in_layout_are_walked_in_slices(is_thorough: bool) -> None:
    """A slice may have 256 records, which take some 150 us."""
    data = b"".join(small_record(index, key_size=-(index % 2)) for index in range(20_000))

    _, slices = walk([data], 20_000, is_thorough=is_thorough)

    assert slices >= 20_000 / 256

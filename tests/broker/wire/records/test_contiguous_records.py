"""The fast check accepts the records of producers, and none that the walk of each record rejects."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.wire.records import (
    Record,
    are_contiguous,
    build_batch,
    parse_batch,
    read_records,
    validate_plain_records,
)
from ottla.wire.records.varint import encode_varint

Seal = Callable[..., bytes]
NOW_MS = 1_700_000_000_000
LIMIT = 1 << 30


class Numbers(NamedTuple):
    """The numbers of one record, of which any may be wrong; a size is None if it is the right one."""

    offset_delta: int
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_delta_ms: int = 0
    size_more: int = 0
    key_size_more: int = 0
    value_size_more: int = 0
    header_count_more: int = 0
    tail: bytes = b""


def encode(record: Numbers) -> bytes:
    body = [b"\0", encode_varint(record.timestamp_delta_ms), encode_varint(record.offset_delta)]
    for field, more in ((record.key, record.key_size_more), (record.value, record.value_size_more)):
        body += [encode_varint((-1 if field is None else len(field)) + more), field or b""]
    body.append(encode_varint(len(record.headers) + record.header_count_more))
    for name, header_value in record.headers:
        body += [encode_varint(len(name)), name]
        body += [encode_varint(-1 if header_value is None else len(header_value)), header_value or b""]
    data = b"".join(body) + record.tail
    return encode_varint(len(data) + record.size_more) + data


def join(records: list[Numbers]) -> bytes:
    return b"".join(map(encode, records))


def is_valid(seal: Seal, payload: bytes, record_count: int) -> bool:
    """The result of the walk of each record."""
    batch = parse_batch(seal(payload, record_count=record_count))
    try:
        validate_plain_records(batch, payload)
    except InvalidRecordError:
        return False
    records = read_records(batch, size_bytes_max=LIMIT)
    assert [record.offset for record in records] == list(range(record_count))
    return True


SIZES = st.sampled_from([0, 1, 20, 49, 50, 57, 60, 63, 64, 100, 130, 8_100, 8_191, 8_192])
HEADERS = st.sampled_from(
    [(), (), (), ((b"name", b"value"),), ((b"trace", b"x" * 70), (b"none", None)), ((b"a", b"b"),) * 9]
)


@st.composite
def stretches(draw: st.DrawFn) -> list[Numbers]:
    """Stretches of records that are alike in some things and differ in others, as producers send them."""
    records: list[Numbers] = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.sampled_from([1, 2, 7, 8, 9, 33, 70, 200]))
        sizes = draw(st.lists(SIZES if count < 70 else st.integers(0, 150), min_size=1, max_size=5))
        key_sizes = draw(st.lists(st.sampled_from([None, 0, 3, 16, 60, 63, 64, 200]), min_size=1, max_size=2))
        is_tombstone = draw(st.booleans()) and draw(st.booleans())
        headers = draw(HEADERS)
        step_ms = draw(st.sampled_from([0, 1, 1, -3, 90, 5_000, 2**33]))
        for number in range(count):
            key_size = key_sizes[number % len(key_sizes)]
            records.append(
                Numbers(
                    offset_delta=len(records),
                    key=None if key_size is None else b"k" * key_size,
                    value=None if is_tombstone and number % 3 == 0 else b"v" * sizes[number % len(sizes)],
                    headers=headers,
                    timestamp_delta_ms=number * step_ms,
                )
            )
    return records


@given(records=stretches())
def test_records_of_producers_are_contiguous(records: list[Numbers]) -> None:
    assert are_contiguous(join(records), len(records))


@given(records=stretches(), data=st.data())
def test_one_wrong_count_size_or_offset_is_rejected(seal: Seal, records: list[Numbers], data: st.DataObject) -> None:
    count, index = len(records), data.draw(st.integers(0, len(records) - 1))
    more = data.draw(st.sampled_from([-70, -2, -1, 1, 2, 63, 64, 128, 8_192, 2**20]))
    match data.draw(st.sampled_from(["count", "size", "offset", "tail", "cut"])):
        case "count":
            count += more
        case "size":
            records[index] = records[index]._replace(size_more=more)
        case "offset":
            records[index] = records[index]._replace(offset_delta=index + more)
        case "tail":
            records[index] = records[index]._replace(tail=bytes(abs(more) % 9 + 1), size_more=-(abs(more) % 9 + 1))
        case _:
            records[-1] = records[-1]._replace(size_more=1)

    assert not are_contiguous(join(records), count)
    assert count < 0 or not is_valid(seal, join(records), count)


@given(records=stretches(), data=st.data())
def test_columns_and_walk_agree_on_invalid_records(seal: Seal, records: list[Numbers], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    more = data.draw(st.sampled_from([-2, -1, 1, 2, 64, 2**20]))
    match data.draw(st.sampled_from(["key", "value", "headers"])):
        case "key":
            records[index] = records[index]._replace(key_size_more=more)
        case "value":
            records[index] = records[index]._replace(value_size_more=more)
        case _:
            records[index] = records[index]._replace(header_count_more=more)
    payload = join(records)

    if are_contiguous(payload, len(records)):
        assert is_valid(seal, payload, len(records))


@given(records=stretches(), data=st.data())
def test_columns_and_walk_agree_on_changed_bytes(seal: Seal, records: list[Numbers], data: st.DataObject) -> None:
    payload = bytearray(join(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.one_of(st.integers(0, 255), st.just(payload[at] ^ 1), st.just(payload[at] ^ 0x80)))

    if are_contiguous(bytes(payload), len(records)):
        assert is_valid(seal, bytes(payload), len(records))


SHAPES = pytest.mark.parametrize(
    "value_size",
    [
        pytest.param(lambda index: 10, id="equal"),
        pytest.param(lambda index: 100, id="equal-two-byte-sizes"),
        pytest.param(lambda index: 1 + index * 7 % 40, id="differ"),
        pytest.param(lambda index: 70 + index * 7 % 90, id="differ-two-byte-sizes"),
        pytest.param(lambda index: 50 + index * 7 % 30, id="differ-mixed-sizes"),
    ],
)


@SHAPES
@pytest.mark.parametrize("key", [None, b"", b"k" * 16], ids=["no-key", "empty-key", "key"])
def test_large_batches_are_checked_at_every_width_of_the_offset_delta(
    value_size: Callable[[int], int], key: bytes | None, seal: Seal
) -> None:
    count = 20_000
    parts = [encode(Numbers(index, key, b"v" * value_size(index), (), index // 50)) for index in range(count)]
    payload = b"".join(parts)
    assert are_contiguous(payload, count)
    assert not are_contiguous(payload, count - 1)
    assert not are_contiguous(payload, count + 1)

    for index in (0, 1, 63, 64, 65, 3_000, 8_191, 8_192, 8_193, 16_383, 16_384, 19_998, 19_999):
        valid = Numbers(index, key, b"v" * value_size(index), (), index // 50)
        for lie in (
            valid._replace(offset_delta=index ^ 1),
            valid._replace(offset_delta=-index - 1),
            valid._replace(size_more=1),
            valid._replace(size_more=-1),
            valid._replace(value_size_more=1),
            valid._replace(value_size_more=-1),
            valid._replace(header_count_more=-1),
            valid._replace(header_count_more=1),
            valid._replace(tail=b"\0", size_more=-1),
        ):
            assert not are_contiguous(b"".join([*parts[:index], encode(lie), *parts[index + 1 :]]), count), (index, lie)


def test_built_batches_pass_validation() -> None:
    records = [Record(index, NOW_MS + index, b"k" * (index % 3), b"v" * (index % 200)) for index in range(1_000)]

    assert are_contiguous(bytes(parse_batch(build_batch(records)).payload), 1_000)


@pytest.mark.parametrize("size_bytes", [9, 10], ids=["nine-bytes", "ten-bytes"])
def test_timestamps_that_might_overflow_need_the_walk(size_bytes: int) -> None:
    delta_ms = {9: 2**62 - 1, 10: 2**62 + 1}[size_bytes]
    assert len(encode_varint(delta_ms)) == size_bytes
    records = [Numbers(index, timestamp_delta_ms=delta_ms) for index in range(100)]

    assert are_contiguous(join(records), 100) is (size_bytes == 9)


@pytest.mark.parametrize("differing", [False, True], ids=["one-size", "sizes-differ"])
@pytest.mark.parametrize("count", [1, 5, 1_500])
def test_record_with_too_many_headers_needs_the_walk(count: int, differing: bool) -> None:
    headers = ((b"a", b"1"), (b"b", None), (b"c", b""))
    records = [
        Numbers(index, value=bytes(20 + index % 7 * differing), headers=headers, timestamp_delta_ms=index)
        for index in range(count)
    ]
    last = [*records[:-1], records[-1]._replace(headers=(*headers, (b"d", b"")))]

    assert are_contiguous(join(records), count, headers_each_max=3)
    assert not are_contiguous(join(records), count, headers_each_max=2)
    assert are_contiguous(join(last), count, headers_each_max=4)
    assert not are_contiguous(join(last), count, headers_each_max=3)


def test_columns_with_too_many_headers_need_the_walk() -> None:
    headers = ((b"a", b"1"), (b"b", None), (b"c", b""))
    # At one record that is checked alone, before the records after it are compared with each other.
    records = [Numbers(index, headers=() if index in (0, 64) else headers) for index in range(1_500)]

    assert are_contiguous(join(records), 1_500, headers_each_max=3)
    assert not are_contiguous(join(records), 1_500, headers_each_max=2)


def test_empty_data_has_no_records() -> None:
    assert are_contiguous(b"", 0)
    assert not are_contiguous(b"", 1)
    assert not are_contiguous(b"\0", 0)

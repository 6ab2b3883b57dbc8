"""A form matches only batches that the walk of each record accepts."""

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.wire.records import parse_batch, validate_plain_records
from ottla.wire.records.batch_form import BatchForms, make_form
from ottla.wire.records.record_layout import read_layout
from ottla.wire.records.varint import encode_varint

Seal = Callable[..., bytes]


class Shape(NamedTuple):
    """The layout that all records of a batch share."""

    record_count: int
    key_size: int | None
    value_size: int | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    first_timestamp_delta_ms: int


def encode(shape: Shape, index: int, fill: bytes = b"v") -> bytes:
    body = b"\0" + encode_varint(shape.first_timestamp_delta_ms) + encode_varint(index)
    for size in (shape.key_size, shape.value_size):
        body += encode_varint(-1 if size is None else size) + fill * (size or 0)
    body += encode_varint(len(shape.headers))
    for name, value in shape.headers:
        body += encode_varint(len(name)) + name
        body += encode_varint(-1 if value is None else len(value)) + (value or b"")
    return encode_varint(len(body)) + body


def encode_all(shape: Shape, fill: bytes = b"v") -> bytes:
    return b"".join(encode(shape, index, fill) for index in range(shape.record_count))


def is_valid(seal: Seal, payload: bytes, record_count: int) -> bool:
    try:
        validate_plain_records(parse_batch(seal(payload, record_count=record_count)), payload)
    except InvalidRecordError:
        return False
    return True


SHAPES = st.builds(
    Shape,
    record_count=st.sampled_from([6, 7, 63, 64, 65, 66, 148]),
    key_size=st.sampled_from([None, 0, 1, 16, 64]),
    value_size=st.sampled_from([None, 0, 1, 57, 63, 64, 100]),
    headers=st.sampled_from([(), (), ((b"trace", b"1234"),), ((b"", None), (b"name", b"x" * 70))]),
    first_timestamp_delta_ms=st.sampled_from([0, 0, -1, 63, 64, 8_192, 2**62 - 1]),
)


@given(shape=SHAPES)
def test_records_of_one_size_fit_at_first_and_again(shape: Shape) -> None:
    forms = BatchForms()

    assert forms.fit(encode_all(shape), shape.record_count, 0) is not None
    assert forms.fit(encode_all(shape, b"w"), shape.record_count, 0) is not None


@given(shape=SHAPES, data=st.data())
def test_cached_form_matches_no_batch_that_the_walk_rejects(seal: Seal, shape: Shape, data: st.DataObject) -> None:
    valid = encode_all(shape)
    form = make_form(valid, shape.record_count)
    assert form is not None
    assert form.newest_delta(valid, 0) is not None
    changed = bytearray(valid)
    starts = list(accumulate((len(encode(shape, index)) for index in range(shape.record_count - 1)), initial=0))
    for _ in range(data.draw(st.integers(1, 3))):
        # The relevant bytes are around the starts of records.
        near = data.draw(st.sampled_from(starts)) + data.draw(st.integers(-12, 12))
        at = near % len(changed)
        changed[at] = data.draw(st.one_of(st.integers(0, 255), st.just(changed[at] ^ 1), st.just(changed[at] ^ 0x80)))

    if form.newest_delta(bytes(changed), 0) is not None:
        assert is_valid(seal, bytes(changed), shape.record_count)


@given(shape=SHAPES, data=st.data())
def test_form_ignores_keys_values_and_attributes_and_checks_sizes_and_offsets(
    shape: Shape, data: st.DataObject
) -> None:
    valid = encode_all(shape)
    index = data.draw(st.integers(0, shape.record_count - 1))
    start = len(encode_all(shape._replace(record_count=index)))
    form, layout = make_form(valid, shape.record_count), read_layout(valid, start, index)
    assert form is not None
    assert layout is not None
    numbers = {*range(layout.timestamp, layout.key_size[0]), *layout.size, *layout.key_size, *layout.value_size}
    numbers |= set(layout.headers)
    at = data.draw(st.integers(0, layout.size_bytes - 1))
    changed = bytearray(valid)
    changed[start + at] ^= data.draw(st.integers(1, 0x7F))

    is_timestamp = layout.timestamp <= at < layout.offset_delta
    assert (form.newest_delta(bytes(changed), 0) is not None) is (at not in numbers or is_timestamp)
    changed[start + layout.offset_delta - 1] ^= 0x80
    assert form.newest_delta(bytes(changed), 0) is None


@pytest.mark.parametrize("record_count", [5, 1_025], ids=["too-few", "too-many"])
def test_forms_are_kept_for_batches_of_a_usual_count(record_count: int) -> None:
    shape = Shape(record_count, None, 3, (), 0)

    assert BatchForms().fit(encode_all(shape), record_count, 0) is None


def test_form_matches_large_values() -> None:
    shape = Shape(20, None, 70_000, (), 0)

    assert BatchForms().fit(encode_all(shape), 20, 0) is not None


def test_two_layouts_with_equal_sizes_and_counts_have_a_form_each() -> None:
    forms = BatchForms()
    keyless, keyed = Shape(10, None, 20, (), 0), Shape(10, 8, 12, (), 0)
    assert len(encode_all(keyless)) == len(encode_all(keyed))

    assert forms.fit(encode_all(keyless), 10, 0) is not None
    assert forms.fit(encode_all(keyed), 10, 0) is not None
    assert forms.fit(encode_all(keyless), 10, 0) is not None


def test_oldest_of_many_forms_is_evicted_and_found_again() -> None:
    forms = BatchForms()
    batches = [(encode_all(Shape(count, None, 1, (), 0)), count) for count in range(6, 80)]

    for _ in range(2):
        assert all(forms.fit(data, count, 0) is not None for data, count in batches)
    assert len(forms) == 64


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data + b"\0", id="more"),
        pytest.param(lambda data: b"\xff" * len(data), id="noise"),
        pytest.param(lambda data: b"", id="nothing"),
        pytest.param(lambda data: data[:20] + b"\x01" + data[20:], id="shifted"),
    ],
)
def test_records_without_a_common_layout_have_no_form(change: Callable[[bytes], bytes]) -> None:
    data = encode_all(Shape(100, None, 100, (), 0))

    assert BatchForms().fit(change(data), 100, 0) is None

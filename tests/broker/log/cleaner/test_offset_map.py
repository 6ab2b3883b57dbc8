"""The table of keys and last offsets: a dictionary of fixed size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.cleaner import offset_map
from ottla.log.cleaner.offset_map import ENTRY_SIZE_BYTES, OffsetMap, slots_for


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=60))
def test_map_returns_what_a_dictionary_returns(entries: list[tuple[bytes, int]]) -> None:
    offsets, model = OffsetMap(80), dict[bytes, int]()

    assert offsets.put_all([key for key, _ in entries], [offset for _, offset in entries])
    model.update(entries)

    assert len(offsets) == len(model)
    assert offsets.get_all(model) == list(model.values())
    assert offsets.get_all([b"no such key"]) == [-1]
    assert offsets.latest_offset == (entries[-1][1] if entries else -1)


@pytest.mark.parametrize("slots", [1, 3, 4, 100, 1000])
@pytest.mark.parametrize("load_factor", [0.0, 0.5, 0.9, 1.0])
def test_full_map_still_finds_every_key(slots: int, load_factor: float) -> None:
    offsets = OffsetMap(slots, load_factor)
    count = 0
    while offsets.put_all([b"%d" % count], [count]):
        count += 1

    assert 1 <= count == offsets.capacity < offsets.slots
    assert offsets.get_all([b"%d" % key for key in range(count)]) == list(range(count))
    assert offsets.get_all([b"absent"]) == [-1]


def test_full_map_has_the_offsets_up_to_the_record_that_did_not_fit() -> None:
    offsets = OffsetMap(5)

    keys = [b"%d" % offset for offset in range(10)]
    assert not offsets.put_all(keys, range(10))
    assert offsets.latest_offset == offsets.capacity - 1
    assert offsets.get_all(keys) == [0, 1, 2, 3] + [-1] * 6


def test_latest_offset_does_not_go_back() -> None:
    offsets = OffsetMap(10)

    offsets.advance(7)
    offsets.advance(3)

    assert offsets.latest_offset == 7


@pytest.mark.parametrize(
    ("buffer_bytes", "records", "expected"),
    [
        (1000 * ENTRY_SIZE_BYTES, 10**9, 1000),
        (1000 * ENTRY_SIZE_BYTES, 90, 101),
        (0, 10**9, 3),
    ],
    ids=["bounded by the buffer", "no more than the records need", "at least a few"],
)
def test_slots(buffer_bytes: int, records: int, expected: int) -> None:
    assert slots_for(buffer_bytes, 0.9, records) == expected


@given(st.lists(st.binary(max_size=1), min_size=1, max_size=60), st.integers(0, 2**60), st.integers(0, 60))
def test_marks_are_those_of_records_with_a_later_one_of_their_key(
    keys: list[bytes], first_offset: int, offset_count: int
) -> None:
    offsets = OffsetMap(80, first_offset=first_offset, offset_count=offset_count)
    assert offsets.put_all(keys, range(first_offset, first_offset + len(keys)))
    expected = bytes(key in keys[index + 1 :] for index, key in enumerate(keys)).ljust(offset_count, b"\0")

    if offset_count:
        assert offsets.marks(first_offset, first_offset + offset_count - 1) == expected[:offset_count]
    assert offsets.marks(first_offset, first_offset + offset_count) is None
    assert offsets.marks(first_offset - 1, first_offset) is None


def test_offsets_beyond_the_limit_of_marks_are_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "MARKS_MAX", 2)
    offsets = OffsetMap(80, first_offset=5, offset_count=1_000)
    offsets.put_all([b"a", b"b", b"b", b"b"], range(5, 9))

    assert offsets.marks(5, 6) == b"\0\1"
    assert offsets.marks(6, 7) is None

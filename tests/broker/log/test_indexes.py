"""The three index files of a segment: lookups, writes, and invalid files."""

from bisect import bisect_right
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import StorageError
from ottla.log.offset_index import OffsetIndex
from ottla.log.time_index import TimeIndex
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.simulator.world.disk import SimulatedDisk

PATH = "/index"

ascending = st.lists(st.integers(0, 1000), unique=True, max_size=30).map(sorted)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


# --- offsets


@given(ascending, st.integers(90, 1200))
def test_lookup_finds_the_last_entry_at_or_below(relative: list[int], wanted: int) -> None:
    index = OffsetIndex(SimulatedDisk(), PATH, 100)
    for number, offset in enumerate(relative):
        index.append(100 + offset, (number + 1) * 10)

    slot = bisect_right(relative, wanted - 100)

    assert index.lookup(wanted) == slot * 10


@given(ascending, st.integers(0, 1001))
def test_truncation_drops_the_entries_at_or_above(relative: list[int], cut: int) -> None:
    disk = SimulatedDisk()
    index = OffsetIndex(disk, PATH, 100)
    for number, offset in enumerate(relative):
        index.append(100 + offset, number)
    index.save()

    index.truncate_to(100 + cut)
    index.save()

    kept = [offset for offset in relative if offset < cut]
    assert [offset - 100 for offset, _ in index.entries()] == kept
    assert disk.contents(PATH) == b"".join(pack(">ii", offset, number) for number, offset in enumerate(kept))


def test_entries_reach_the_file_when_the_index_is_saved_and_only_the_new_ones(disk: SimulatedDisk) -> None:
    index = OffsetIndex(disk, PATH, 0)
    index.append(1, 10)
    assert not disk.exists(PATH)
    index.save()
    index.append(2, 20)
    before = disk.operations["write"]
    index.save()
    index.save()

    assert disk.contents(PATH) == pack(">iiii", 1, 10, 2, 20)
    assert disk.operations["write"] - before == 1


def test_released_index_is_read_again(disk: SimulatedDisk) -> None:
    index = OffsetIndex(disk, PATH, 50)
    index.append(60, 10)
    index.release()

    assert index.last_entry() == (60, 10)
    index.append(70, 20)
    assert index.entries() == [(60, 10), (70, 20)]


def test_last_entry_of_an_empty_index_is_the_base_offset(disk: SimulatedDisk) -> None:
    assert OffsetIndex(disk, PATH, 50).last_entry() == (50, 0)
    assert OffsetIndex(disk, PATH, 50).lookup(99) == 0


def test_offset_at_position_is_that_of_the_first_entry_at_or_above(disk: SimulatedDisk) -> None:
    index = OffsetIndex(disk, PATH, 0)
    index.append(5, 100)
    index.append(9, 200)

    assert [index.offset_at_position(position) for position in (0, 100, 101, 200, 201)] == [5, 5, 9, 9, None]


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        pytest.param(b"", True, id="empty"),
        pytest.param(pack(">ii", 3, 4), True, id="one-entry"),
        pytest.param(pack(">ii", 3, 4) + b"\0", False, id="part-of-an-entry"),
    ],
)
def test_index_with_a_partial_entry_is_not_whole(disk: SimulatedDisk, data: bytes, is_whole: bool) -> None:
    disk.open(PATH, create=True).pwritev([data], 0)
    index = OffsetIndex(disk, PATH, 100)

    assert index.last_entry() == ((103, 4) if data else (100, 0))
    assert index.file.is_whole is is_whole


def test_missing_index_is_not_whole(disk: SimulatedDisk) -> None:
    for index in (OffsetIndex(disk, PATH, 100), TimeIndex(disk, PATH, 100)):
        index.last_entry()
        assert not index.file.is_whole


# --- timestamps


def test_only_later_timestamps_are_added(disk: SimulatedDisk) -> None:
    index = TimeIndex(disk, PATH, 0)

    for timestamp_ms, offset in ((10, 1), (10, 2), (9, 3), (11, 4)):
        index.append_if_later(timestamp_ms, offset)
    index.save()

    assert index.entries() == [(10, 1), (11, 4)]
    assert disk.contents(PATH) == pack(">qiqi", 10, 1, 11, 4)


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [
        pytest.param(9, 100, id="before-the-first-entry"),
        pytest.param(10, 101, id="at-an-entry"),
        pytest.param(19, 101, id="between-entries"),
        pytest.param(20, 105, id="at-the-last-entry"),
        pytest.param(99, 105, id="after-the-last-entry"),
    ],
)
def test_search_by_time_starts_at_the_last_entry_at_or_below(
    disk: SimulatedDisk, timestamp_ms: int, offset: int
) -> None:
    index = TimeIndex(disk, PATH, 100)
    index.append_if_later(10, 101)
    index.append_if_later(20, 105)

    assert index.lookup(timestamp_ms) == offset


def test_time_index_is_truncated_by_offset(disk: SimulatedDisk) -> None:
    index = TimeIndex(disk, PATH, 0)
    index.append_if_later(10, 1)
    index.append_if_later(20, 5)
    index.release()

    index.truncate_to(5)
    index.save()

    assert (index.entries(), len(disk.contents(PATH))) == ([(10, 1)], 12)


# --- aborted transactions


def transactions() -> list[AbortedTransaction]:
    return [AbortedTransaction(1, 0, 10, 5), AbortedTransaction(2, 5, 15, 16), AbortedTransaction(3, 18, 25, 40)]


def transaction_index(disk: SimulatedDisk) -> TransactionIndex:
    index = TransactionIndex(disk, PATH, 0, exists=False)
    for transaction in transactions():
        index.append(transaction)
    return index


@pytest.mark.parametrize(
    ("start", "end", "producers", "is_complete"),
    [
        pytest.param(0, 5, [1], True, id="only-the-first-had-begun"),
        pytest.param(0, 6, [1, 2], True, id="the-second-begins-below-the-end"),
        pytest.param(10, 20, [1, 2, 3], True, id="at-the-first-marker"),
        pytest.param(11, 17, [2], True, id="after-the-first-marker"),
        pytest.param(26, 50, [], False, id="after-all"),
    ],
)
def test_aborted_transactions_are_found_by_overlap(
    disk: SimulatedDisk, start: int, end: int, producers: list[int], is_complete: bool
) -> None:
    found, complete = transaction_index(disk).collect(start, end)

    assert ([transaction.producer_id for transaction in found], complete) == (producers, is_complete)


def test_transaction_index_is_saved_and_truncated_by_marker_offset(disk: SimulatedDisk) -> None:
    transaction_index(disk)
    index = TransactionIndex(disk, PATH, 0, exists=True)
    assert index.entries() == transactions()

    index.truncate_to(15)
    index.append(AbortedTransaction(9, 11, 15, 16))

    assert [entry.producer_id for entry in TransactionIndex(disk, PATH, 0, exists=True).entries()] == [1, 9]


def test_without_aborted_transactions_there_is_no_file(disk: SimulatedDisk) -> None:
    index = TransactionIndex(disk, PATH, 0, exists=False)

    assert index.collect(0, 100) == ([], False)
    index.truncate_to(0)
    index.reset()
    assert disk.paths() == []


def test_another_version_of_the_transaction_index_is_an_error(disk: SimulatedDisk) -> None:
    disk.open(PATH, create=True).pwritev([pack(">hqqqq", 1, 0, 0, 0, 0)], 0)
    index = TransactionIndex(disk, PATH, 0, exists=True)

    assert not index.is_sane()
    with pytest.raises(StorageError, match="version 1"):
        index.entries()

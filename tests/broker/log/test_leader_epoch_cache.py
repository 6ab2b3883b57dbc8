"""Leader epochs: start and end offset of each, and truncation at either end."""

import pytest

from ottla.errors import StorageError
from ottla.log.leader_epoch_cache import FoundEpoch, LeaderEpochCache
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import OffsetAndEpoch

PATH = "/leader-epoch-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def cache(disk: SimulatedDisk) -> LeaderEpochCache:
    """Epoch 2 from offset 5, epoch 4 from 10, epoch 7 from 20."""
    cache = LeaderEpochCache(disk, PATH)
    for epoch, start_offset in ((2, 5), (4, 10), (7, 20)):
        cache.assign(epoch, start_offset)
    return cache


def entries(cache: LeaderEpochCache) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in cache.entries]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        pytest.param(-1, None, id="undefined"),
        pytest.param(0, OffsetAndEpoch(5, 0), id="below-all-known"),
        pytest.param(2, OffsetAndEpoch(10, 2), id="known"),
        pytest.param(3, OffsetAndEpoch(10, 2), id="between-known"),
        pytest.param(6, OffsetAndEpoch(20, 4), id="just-below-the-latest"),
        pytest.param(7, OffsetAndEpoch(33, 7), id="latest-ends-with-the-log"),
        pytest.param(8, None, id="newer-than-all-known"),
    ],
)
def test_end_offset_of_an_epoch(cache: LeaderEpochCache, epoch: int, expected: OffsetAndEpoch | None) -> None:
    assert cache.end_offset_for(epoch, 33) == expected


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 2), (9, 2), (10, 4), (20, 7), (99, 7)], ids=str)
def test_epoch_of_an_offset(cache: LeaderEpochCache, offset: int, epoch: int) -> None:
    assert cache.epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        pytest.param(7, 25, [(2, 5), (4, 10), (7, 20)], id="known-again"),
        pytest.param(8, 20, [(2, 5), (4, 10), (8, 20)], id="replaces-an-epoch-without-records"),
        pytest.param(8, 12, [(2, 5), (4, 10), (8, 12)], id="records-were-truncated"),
        pytest.param(3, 30, [(2, 5), (3, 30)], id="epochs-went-back"),
        pytest.param(1, 1, [(1, 1)], id="everything-is-new"),
    ],
)
def test_assigned_epoch_drops_entries_that_are_not_below_it(
    cache: LeaderEpochCache, epoch: int, offset: int, expected: list[tuple[int, int]]
) -> None:
    cache.assign(epoch, offset)

    assert entries(cache) == expected
    assert cache.latest_epoch == expected[-1][0]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(21, [(2, 5), (4, 10), (7, 20)]), (20, [(2, 5), (4, 10)]), (5, []), (0, [])],
    ids=["above-the-last-start", "at-the-last-start", "at-the-first-start", "at-nothing"],
)
def test_truncation_from_the_end(cache: LeaderEpochCache, offset: int, expected: list[tuple[int, int]]) -> None:
    cache.truncate_from_end(offset)

    assert entries(cache) == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (4, [(2, 5), (4, 10), (7, 20)]),
        (5, [(2, 5), (4, 10), (7, 20)]),
        (7, [(2, 7), (4, 10), (7, 20)]),
        (10, [(4, 10), (7, 20)]),
        (25, [(7, 25)]),
    ],
    ids=["below-all", "at-the-first", "within-the-first", "at-the-second", "within-the-last"],
)
def test_truncation_from_the_start(cache: LeaderEpochCache, offset: int, expected: list[tuple[int, int]]) -> None:
    cache.truncate_from_start(offset)

    assert entries(cache) == expected


def test_leader_epoch_checkpoint_has_kafkas_format(cache: LeaderEpochCache, disk: SimulatedDisk) -> None:
    assert disk.contents(PATH) == b"0\n3\n2 5\n4 10\n7 20\n"
    again = LeaderEpochCache(disk, PATH)
    again.load()
    assert (again.entries, again.latest_epoch) == (cache.entries, 7)


@pytest.mark.parametrize(
    "text",
    ["\n", "0\n\n", "1\n0\n", "0\n2\n1 1\n", "0\n1\n1 x\n", "0\n1\n1 2 3\n", "0\n2\n4 1\n3 2\n"],
    ids=["blank", "no-count", "version", "count", "not-a-number", "three-fields", "descending"],
)
def test_malformed_file_is_named_in_the_error(disk: SimulatedDisk, text: str) -> None:
    disk.open(PATH, create=True).pwritev([text.encode()], 0)

    with pytest.raises(StorageError, match=PATH):
        LeaderEpochCache(disk, PATH).load()


def test_unsynced_file_that_is_cut_off_within_a_number_is_malformed(disk: SimulatedDisk) -> None:
    """Seed 700000492: epoch 4 started at 11; a power cut left 1, and followers truncated to there for ever."""
    disk.open(PATH, create=True).pwritev([b"0\n2\n0 0\n4 1"], 0)

    with pytest.raises(StorageError, match="the last line is cut off"):
        LeaderEpochCache(disk, PATH).load(is_synced=False)
    LeaderEpochCache(disk, PATH).load()


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "found", "expected"),
    [
        pytest.param(0, None, [(2, 5, 5), (4, 10, 10), (7, 20, 20)], [(2, 5), (4, 10), (7, 20)], id="the-same"),
        pytest.param(0, None, [(2, 7, 0), (4, 12, 9), (7, 25, 14)], [(2, 5), (4, 10), (7, 20)], id="compacted"),
        pytest.param(0, None, [(2, 5, 0), (7, 25, 7)], [(2, 5), (4, 10), (7, 20)], id="epoch-without-batches"),
        pytest.param(0, None, [(2, 5, 0), (4, 12, 12), (7, 20, 20)], [(2, 5), (4, 12), (7, 20)], id="wrong-start"),
        pytest.param(0, None, [(2, 5, 0), (3, 10, 10), (7, 20, 20)], [(2, 5), (3, 10), (7, 20)], id="wrong-epoch"),
        pytest.param(0, None, [(1, 5, 0), (6, 10, 10), (7, 20, 20)], [(1, 5), (6, 10), (7, 20)], id="both-wrong"),
        pytest.param(0, None, [(2, 5, 5)], [(2, 5)], id="truncated"),
        pytest.param(10, None, [(4, 12, 10), (9, 30, 22)], [(2, 5), (4, 10), (9, 30)], id="from-an-offset"),
        pytest.param(15, None, [(4, 18, 15), (7, 20, 20)], [(2, 5), (4, 10), (7, 20)], id="within-an-epoch"),
        pytest.param(0, 20, [(2, 6, 6), (4, 10, 10)], [(2, 6), (4, 10), (7, 20)], id="up-to-an-offset"),
        pytest.param(0, 20, [(2, 6, 6), (8, 10, 10)], [(2, 6), (8, 10)], id="lower-epoch-behind"),
    ],
)
def test_found_epochs_replace_the_entries_that_they_contradict(
    cache: LeaderEpochCache,
    disk: SimulatedDisk,
    start_offset: int,
    end_offset: int | None,
    found: list[tuple[int, int, int]],
    expected: list[tuple[int, int]],
) -> None:
    cache.restore(start_offset, [FoundEpoch(*each) for each in found], end_offset=end_offset)

    assert entries(cache) == expected
    again = LeaderEpochCache(disk, PATH)
    again.load()
    assert entries(again) == expected

"""Deleted, half-written and finished files that a stopped node has left behind."""

from collections.abc import Callable

import pytest

from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
LOG_0 = "/data/topic-0/00000000000000000000.log"

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".tmp"])
def test_files_of_interrupted_work_are_removed(open_log: OpenLog, disk: SimulatedDisk, suffix: str) -> None:
    open_log().close()
    disk.open(LOG_0 + suffix, create=True)

    open_log(was_clean_shutdown=True)

    assert not disk.exists(LOG_0 + suffix)


def test_finished_compaction_replaces_the_segments_that_it_covers(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(segment_bytes=2 * len(make_batch(1)))
    for _ in range(6):
        log.append_as_leader(make_batch(1), leader_epoch=0, now_ms=NOW_MS)
    log.close()
    disk.kill()
    # One batch is left of the first two segments; it still covers offsets 0 to 3.
    compacted = bytes(make_batch(1, base_offset=3))
    swap = disk.open(LOG_0 + ".swap", create=True)
    swap.pwritev([compacted], 0)

    again = open_log(was_clean_shutdown=True, cleanup_policy=frozenset({"compact"}))

    assert [segment.base_offset for segment in again.segments()] == [0, 4]
    assert disk.contents(LOG_0) == compacted
    assert not [path for path in disk.paths() if path.endswith(".swap")]
    assert again.log_end_offset == 6

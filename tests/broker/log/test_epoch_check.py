"""leader-epoch-checkpoint after a crash: entries that disagree with the batches are found, sound ones are kept."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.log.epoch_check import CHECKED_ENTRIES_MAX
from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
FILE = "/data/topic-0/leader-epoch-checkpoint"
EPOCHS = [1] * 5 + [3] * 8 + [4] * 6 + [12] * 7 + [30] * 6
"""Of each batch, which has one record; the last epoch begins below the segment with the recovery point."""
STARTS = {1: 0, 3: 5, 4: 13, 12: 19, 30: 26}
RECOVERY_POINT = 30

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


@pytest.fixture
def segment_bytes(make_batch: MakeBatch) -> int:
    return 4 * len(make_batch(1))


@pytest.fixture
def reopen(open_log: OpenLog, segment_bytes: int) -> OpenLog:
    """The log after a crash: its segments of four batches up to offset 28 are on stable storage."""

    def reopen_log(**options: Any) -> PartitionLog:
        return open_log(
            **{"recovery_point": RECOVERY_POINT, "segment_bytes": segment_bytes, "index_interval_bytes": 1} | options
        )

    return reopen_log


@pytest.fixture
def written(reopen: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> str:
    """Write the log and kill its process; return the file's text."""
    log = reopen(recovery_point=0)
    for epoch in EPOCHS:
        log.append_as_leader(make_batch(1), leader_epoch=epoch, now_ms=NOW_MS)
    log.flush()
    disk.kill()
    return disk.contents(FILE).decode()


def overwrite(disk: SimulatedDisk, text: str) -> None:
    file = disk.open(FILE)
    file.truncate(0)
    file.pwritev([text.encode()], 0)
    file.close()


def flips(text: str) -> Iterator[str]:
    """Yield ``text`` with each digit replaced by each other one, and with each bit of each byte flipped."""
    for position, character in enumerate(text):
        others = {chr(ord(character) ^ 1 << bit) for bit in range(7)}
        if character.isdigit():
            others |= set("0123456789") - {character}
        for other in sorted(others):
            yield text[:position] + other + text[position + 1 :]


def epochs_of(log: PartitionLog) -> list[int]:
    return [log.epoch_for_offset(offset) for offset in range(log.log_start_offset, log.log_end_offset)]


def test_each_flipped_bit_or_digit_of_the_file_is_found_or_harmless(
    reopen: OpenLog, disk: SimulatedDisk, written: str
) -> None:
    for text in flips(written):
        overwrite(disk, text)
        log = reopen()

        assert epochs_of(log) == EPOCHS, text
        ends = {epoch: log.offset_for_leader_epoch(epoch) for epoch in STARTS}
        assert {epoch: end.offset for epoch, end in ends.items() if end is not None} == {
            1: 5,
            3: 13,
            4: 19,
            12: 26,
            30: 32,
        }, text
        disk.kill()


@pytest.mark.parametrize("kept", range(5))
def test_file_that_lacks_entries_is_rebuilt(
    reopen: OpenLog, disk: SimulatedDisk, written: str, caplog: pytest.LogCaptureFixture, kept: int
) -> None:
    lines = written.splitlines()[2:]
    overwrite(disk, "\n".join(["0", str(kept), *lines[5 - kept :], ""]))

    log = reopen()

    assert epochs_of(log) == EPOCHS
    (line,) = [line for line in caplog.messages if FILE in line]
    assert line == f"{FILE} disagrees with the batches below offset 28; rebuilt from them"
    assert disk.contents(FILE).decode() == written


def test_sound_file_is_kept(
    reopen: OpenLog, disk: SimulatedDisk, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    reopen()

    assert disk.contents(FILE).decode() == written
    assert not caplog.messages


@pytest.mark.parametrize(("log_start_offset", "first"), [(7, "3 7"), (13, "4 13")])
def test_epoch_of_the_log_start_within_a_segment_is_kept(
    reopen: OpenLog,
    disk: SimulatedDisk,
    written: str,
    caplog: pytest.LogCaptureFixture,
    log_start_offset: int,
    first: str,
) -> None:
    reopen().raise_log_start(log_start_offset)
    disk.kill()
    text = disk.contents(FILE).decode()
    assert text.splitlines()[2] == first

    log = reopen(log_start_offset=log_start_offset)

    assert epochs_of(log) == EPOCHS[log_start_offset:]
    assert disk.contents(FILE).decode() == text
    assert not caplog.messages


@pytest.mark.parametrize("recovery_point", [RECOVERY_POINT, 12, 0])
@pytest.mark.parametrize("is_removed", [range(3, 8), range(5, 13), range(19, 20), range(19, 28)], ids=str)
def test_epoch_whose_first_batches_were_compacted_is_kept(
    reopen: OpenLog,
    make_batch: MakeBatch,
    disk: SimulatedDisk,
    caplog: pytest.LogCaptureFixture,
    is_removed: range,
    recovery_point: int,
) -> None:
    """The file has the offsets of batches that the cleaner has removed, also of all batches of an epoch.

    Seed 800001226: recovery replaced an epoch's start by its first batch that was left, and a follower kept
    uncommitted records below it.
    """
    log = reopen(recovery_point=0, cleanup_policy=frozenset({"compact"}))
    for offset, epoch in enumerate(EPOCHS):
        if offset not in is_removed:
            log.append_as_follower(make_batch(1, base_offset=offset, leader_epoch=epoch))
    log.flush()
    disk.kill()
    text = "\n".join(["0", "5", *(f"{epoch} {start}" for epoch, start in STARTS.items()), ""])
    overwrite(disk, text)

    again = reopen(cleanup_policy=frozenset({"compact"}), recovery_point=recovery_point)

    assert epochs_of(again) == EPOCHS
    assert disk.contents(FILE).decode() == text
    assert not caplog.messages


def test_corrupt_index_does_not_keep_the_epochs_from_being_checked(
    reopen: OpenLog, disk: SimulatedDisk, written: str
) -> None:
    overwrite(disk, written.replace("\n4 13\n", "\n4 14\n"))
    disk.corrupt("/data/topic-0/00000000000000000012.index", 4, b"\x00\x00\x00\x07")

    assert epochs_of(reopen()) == EPOCHS


@pytest.mark.parametrize("number", range(4), ids=lambda number: f"batch-{24 + number}")
def test_flipped_epoch_of_a_batch_does_not_replace_a_sound_file(
    reopen: OpenLog, disk: SimulatedDisk, written: str, number: int
) -> None:
    """No CRC covers the epoch in a batch. A higher one than those of later batches cannot be right."""
    path = "/data/topic-0/00000000000000000024.log"
    size_bytes = disk.size_bytes(path) // 4
    disk.corrupt(path, number * size_bytes + 12, b"\x40")

    assert epochs_of(reopen()) == EPOCHS
    assert disk.contents(FILE).decode() == written


def test_check_of_many_epochs_reads_the_newest_ones_only(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    for epoch in range(3 * CHECKED_ENTRIES_MAX):
        log.append_as_leader(make_batch(1), leader_epoch=epoch, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.flush()
    disk.kill()
    disk.operations.clear()

    open_log(recovery_point=3 * CHECKED_ENTRIES_MAX)

    assert disk.operations["read"] < 5 * CHECKED_ENTRIES_MAX

"""Recovery points on stable storage: none is above the end of its log once that log is appended to again."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ShortageError, StorageError
from ottla.types import TopicPartition

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("topic", 0)
CHECKPOINT = "/a/recovery-point-offset-checkpoint"
FIRST_SEGMENT = "/a/topic-0/00000000000000000000.log"

MakeBatch = Callable[..., bytearray]


def checkpointed_offset(node: Any) -> int | None:
    """Return the recovery point of the partition that the next process would read."""
    lines = node.disk.contents(CHECKPOINT).decode().splitlines()[2:]
    return int(lines[0].split()[2]) if lines else None


def start_checkpoint_write(node: Any, manager: Any) -> None:
    node.clock.advance(60_000)
    manager.maintenance.tick(node.clock.monotonic_ms())


def write_back(node: Any, path: str) -> None:
    """Put a file on stable storage, as the kernel does whenever it likes."""
    node.disk.open(path).sync()


def append_as_leader(log: Any, make_batch: MakeBatch) -> None:
    log.append_as_leader(make_batch(10), leader_epoch=1, now_ms=NOW_MS)


def append_as_follower(log: Any, make_batch: MakeBatch) -> None:
    batch = make_batch(10, base_offset=log.log_end_offset, leader_epoch=1)
    log.append_as_follower(batch, now_ms=NOW_MS)


@pytest.fixture(params=[append_as_leader, append_as_follower], ids=["leader", "follower"])
def append(request: Any, make_batch: MakeBatch) -> Callable[[Any], None]:
    """Return a function that appends ten records to a log."""
    return lambda log: request.param(log, make_batch)


@pytest.fixture
def manager(node: Any) -> Any:
    return node.start()


@pytest.fixture
def log(node: Any, manager: Any, make_batch: MakeBatch) -> Any:
    """Return a log with offsets 0 to 99, all of them below its recovery point on stable storage."""
    log = node.create(manager)
    for _ in range(10):
        log.append_as_leader(make_batch(10), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    start_checkpoint_write(node, manager)
    node.disk.complete_syncs()
    assert checkpointed_offset(node) == 100
    return log


def truncate(node: Any, log: Any) -> None:
    log.truncate_to(50)
    write_back(node, FIRST_SEGMENT)


def append_and_roll_before_power_cut(node: Any, log: Any, append: Callable[[Any], None]) -> Any:
    """Lose 20 new records, but not the segment that follows them; return the log after recovery."""
    for _ in range(2):
        append(log)
    return roll_before_power_cut(node, log, append)


def roll_before_power_cut(node: Any, log: Any, append: Callable[[Any], None]) -> Any:
    """Lose what is not synced, but not the next segment; return the log after recovery."""
    log.roll(NOW_MS)
    append(log)
    write_back(node, log.segments()[-1].path)
    node.disk.crash()
    return node.start().get(PARTITION)


def test_kill_after_truncation_leaves_no_recovery_point_above_the_log_end(
    node: Any, log: Any, append: Callable[[Any], None]
) -> None:
    truncate(node, log)
    node.disk.kill()
    assert checkpointed_offset(node) == 100

    log = node.start().get(PARTITION)
    assert (log.log_end_offset, checkpointed_offset(node)) == (50, 50)

    assert append_and_roll_before_power_cut(node, log, append).log_end_offset == 50


def test_power_cut_after_truncation_leaves_no_hole(node: Any, log: Any, append: Callable[[Any], None]) -> None:
    truncate(node, log)

    assert append_and_roll_before_power_cut(node, log, append).log_end_offset == 50


def test_kill_and_power_cut_after_truncation_leave_no_hole(node: Any, log: Any, append: Callable[[Any], None]) -> None:
    """The second process finds a log end above the old recovery point, in records that no process has synced."""
    truncate(node, log)
    for _ in range(7):
        append(log)
    node.disk.kill()

    log = node.start().get(PARTITION)
    assert log.log_end_offset == 120

    assert roll_before_power_cut(node, log, append).log_end_offset == 50


def test_append_waits_for_no_checkpoint_that_was_written_off_the_loop(
    node: Any, log: Any, append: Callable[[Any], None]
) -> None:
    truncate(node, log)
    assert log.awaited_checkpoint is not None
    node.disk.complete_syncs()
    assert (log.awaited_checkpoint, checkpointed_offset(node)) == (None, 50)
    syncs = node.disk.operations["sync"]

    append(log)

    assert node.disk.operations["sync"] == syncs


def test_truncation_above_the_checkpointed_recovery_point_awaits_nothing(
    node: Any, log: Any, append: Callable[[Any], None]
) -> None:
    append(log)

    log.truncate_to(100)

    assert log.awaited_checkpoint is None


def test_older_write_does_not_replace_the_recovery_point_of_an_append(
    node: Any, manager: Any, log: Any, append: Callable[[Any], None]
) -> None:
    append(log)
    log.flush()
    start_checkpoint_write(node, manager)
    truncate(node, log)
    append(log)
    assert checkpointed_offset(node) == 50

    node.disk.complete_syncs()
    assert (checkpointed_offset(node), node.failures) == (50, [])

    log.flush()
    start_checkpoint_write(node, manager)
    node.disk.complete_syncs()
    assert checkpointed_offset(node) == 60


def test_truncation_during_a_write_awaits_the_next_one(node: Any, manager: Any, make_batch: MakeBatch) -> None:
    log = node.create(manager)
    log.append_as_leader(make_batch(10), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    start_checkpoint_write(node, manager)

    log.truncate_to(0)
    assert log.awaited_checkpoint is not None
    node.disk.complete_syncs()

    assert (log.awaited_checkpoint, checkpointed_offset(node)) == (None, 0)


def test_log_does_not_use_the_recovery_point_of_a_deleted_one_of_its_name(
    node: Any, manager: Any, log: Any, append: Callable[[Any], None]
) -> None:
    manager.delete(PARTITION)

    assert append_and_roll_before_power_cut(node, node.create(manager), append).log_end_offset == 0


def test_failed_checkpoint_fails_the_directory_before_the_append(
    node: Any, log: Any, append: Callable[[Any], None]
) -> None:
    truncate(node, log)
    node.disk.fail_next("sync", errno.EIO, path_part="recovery-point")

    with pytest.raises(StorageError):
        append(log)

    assert (log.log_end_offset, node.failures) == (50, ["/a"])


def test_append_without_descriptors_for_the_checkpoint_can_be_retried(
    node: Any, log: Any, append: Callable[[Any], None]
) -> None:
    truncate(node, log)
    node.disk.fail_next("open", errno.EMFILE, path_part="recovery-point")

    with pytest.raises(ShortageError):
        append(log)
    assert (log.log_end_offset, node.failures) == (50, [])
    append(log)

    assert (log.log_end_offset, checkpointed_offset(node)) == (60, 50)


def test_node_starts_without_descriptors_for_the_checkpoint(node: Any, log: Any, append: Callable[[Any], None]) -> None:
    truncate(node, log)
    node.disk.kill()
    node.disk.fail_next("open", errno.EMFILE, path_part="recovery-point-offset-checkpoint.tmp")

    log = node.start().get(PARTITION)
    assert checkpointed_offset(node) == 100
    append(log)

    assert (log.log_end_offset, checkpointed_offset(node)) == (60, 50)

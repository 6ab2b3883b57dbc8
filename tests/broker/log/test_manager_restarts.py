"""All logs of a node: clean and unclean stops, checkpoints, and periodic work."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.log_directory import LOGS_CLOSED_AT_ONCE
from ottla.log.maintenance import ITEMS_PER_SLICE, LogManagerConfig
from ottla.types import TopicPartition, Uuid

NOW_MS = 1_700_000_000_000
A_ID, B_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)
HOUR_MS = 3_600_000

MakeBatch = Callable[..., bytearray]


def append(log: Any, batch: bytearray) -> None:
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("expiration_ms", "is_known"),
    [pytest.param(HOUR_MS, False, id="reached"), pytest.param(HOUR_MS + 1, True, id="one-ms-more")],
)
def test_producers_expire_by_the_newest_setting(
    node: Any, make_batch: MakeBatch, clock: Any, expiration_ms: int, is_known: bool
) -> None:
    node.manager_config = LogManagerConfig(producer_id_expiration_check_interval_ms=HOUR_MS)
    manager = node.start()
    logs = [node.create(manager, partition=partition) for partition in range(3)]
    for log in logs:
        append(log, make_batch(1, producer_id=7, producer_epoch=0, base_sequence=0))

    manager.maintenance.producer_id_expiration_ms = expiration_ms
    logs.append(node.create(manager, partition=3))
    append(logs[3], make_batch(1, producer_id=7, producer_epoch=0, base_sequence=0))
    clock.advance(HOUR_MS)
    manager.maintenance.tick(clock.monotonic_ms())

    assert [bool(log.active_producers()) for log in logs] == [is_known] * 4


def test_clean_shutdown_keeps_all_offsets(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    log = node.create(manager)
    append(log, make_batch(5))
    log.update_high_watermark(4)
    log.delete_records_before(2)
    manager.close(broker_epoch=17)
    node.disk.crash()

    manager = node.start()
    log = node.create(manager)

    assert (log.log_start_offset, log.high_watermark, log.recovery_point, log.log_end_offset) == (2, 4, 5, 5)
    assert log.truncated_bytes == 0
    assert manager.previous_broker_epoch() == 17


def test_clean_stop_syncs_only_logs_that_were_written_to(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    append(node.create(manager, directory_id=A_ID), make_batch(5))
    before = node.disk.operations["sync"]
    for partition in range(1, LOGS_CLOSED_AT_ONCE + 2):
        node.create(manager, partition=partition, directory_id=A_ID)
    manager.close(broker_epoch=17)
    synced = node.disk.operations["sync"] - before
    node.disk.crash()

    manager = node.start()
    logs = [node.create(manager, partition=partition) for partition in range(LOGS_CLOSED_AT_ONCE + 2)]
    end_offsets = [log.log_end_offset for log in logs]
    append(logs[-1], make_batch(1))

    assert synced < 20
    assert end_offsets == [5] + [0] * (LOGS_CLOSED_AT_ONCE + 1)
    assert logs[-1].log_end_offset == 1
    assert manager.previous_broker_epoch() == 17


def test_records_truncated_from_a_log_do_not_return_after_a_clean_stop(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    log = node.create(manager)
    append(log, make_batch(5))
    log.flush()
    log.truncate_to(0)
    manager.close()
    node.disk.crash()

    assert node.create(node.start()).log_end_offset == 0


def test_clean_shutdown_marker_is_valid_for_one_start(node: Any) -> None:
    node.start().close(broker_epoch=17)
    node.disk.crash()
    assert node.start().previous_broker_epoch() == 17
    node.disk.crash()

    assert node.start().previous_broker_epoch() == -1


def test_kafkas_empty_marker_is_a_clean_stop_of_unknown_epoch(node: Any) -> None:
    for path in ("/a", "/b"):
        node.disk.open(f"{path}/.kafka_cleanshutdown", create=True)

    assert node.start().previous_broker_epoch() == -1


def test_killed_process_loses_no_written_records(node: Any, make_batch: MakeBatch) -> None:
    append(node.create(node.start()), make_batch(5))
    node.disk.kill()

    log = node.create(node.start())

    assert (log.log_end_offset, log.truncated_bytes) == (5, 0)


def test_checkpoints_are_written_in_time(node: Any, make_batch: MakeBatch) -> None:
    manager = node.start()
    log = node.create(manager)
    append(log, make_batch(5))
    log.update_high_watermark(5)

    node.clock.advance(5_000)
    manager.maintenance.tick(node.clock.monotonic_ms())
    node.disk.complete_syncs()
    assert node.disk.contents("/a/replication-offset-checkpoint") == b"0\n1\ntopic 0 5\n"

    log.flush()
    node.clock.advance(55_000)
    manager.maintenance.tick(node.clock.monotonic_ms())
    node.disk.complete_syncs()
    assert node.disk.contents("/a/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 5\n"
    assert node.disk.contents("/a/log-start-offset-checkpoint") == b"0\n0\n"


def test_truncation_writes_the_recovery_point_checkpoint_at_once(node: Any, make_batch: MakeBatch) -> None:
    log = node.create(node.start())
    append(log, make_batch(5))
    append(log, make_batch(5))
    log.flush()

    log.truncate_to(5)
    log.truncate_to(0)
    node.disk.complete_syncs()

    assert node.disk.contents("/a/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 0\n"


def test_malformed_checkpoint_takes_its_directory_offline(node: Any) -> None:
    node.create(node.start())
    node.disk.kill()
    node.disk.open("/a/recovery-point-offset-checkpoint", create=True).pwritev([b"garbage"], 0)

    manager = node.start()

    assert (manager.offline_directories(), node.failures) == (["/a"], ["/a"])


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean-stop", "kill"])
def test_empty_checkpoints_are_read_as_kafka_reads_them(node: Any, make_batch: MakeBatch, *, is_clean: bool) -> None:
    """Without offsets everything is recovered from the log's own files; no directory goes offline for it."""
    manager = node.start()
    append(node.create(manager), make_batch(3))
    if is_clean:
        manager.close()
    node.disk.kill()
    for name in ("recovery-point", "log-start", "replication", "cleaner"):
        node.disk.open(f"/a/{name}-offset-checkpoint", create=True).truncate(0)
    node.disk.open("/a/topic-0/partition.metadata", create=True).truncate(0)

    manager = node.start()

    assert manager.offline_directories() == []
    assert manager.get(TopicPartition("topic", 0)).log_end_offset == 3


def test_retention_runs_at_its_interval_on_a_slice_of_logs_per_tick(node: Any, make_batch: MakeBatch) -> None:
    node.config = LogConfig(retention_ms=HOUR_MS)
    manager = node.start()
    count = 2 * ITEMS_PER_SLICE + 3
    for partition in range(count):
        log = node.create(manager, partition=partition)
        append(log, make_batch(1))
        log.update_high_watermark(1)
    node.clock.advance(2 * HOUR_MS)
    now_ms = node.clock.monotonic_ms()

    for ticks in (1, 2):
        manager.maintenance.tick(now_ms)
        assert sum(log.log_start_offset for log in manager.logs()) == ticks * ITEMS_PER_SLICE
        assert manager.maintenance.due_ms <= now_ms
    manager.maintenance.tick(now_ms)

    assert sum(log.log_start_offset for log in manager.logs()) == count
    assert manager.maintenance.due_ms > now_ms


def test_periodic_work_longer_than_its_interval_reaches_every_log(node: Any, make_batch: MakeBatch) -> None:
    node.config = LogConfig(retention_ms=HOUR_MS)
    manager = node.start()
    count = 3 * ITEMS_PER_SLICE
    for partition in range(count):
        log = node.create(manager, partition=partition)
        append(log, make_batch(1))
        log.update_high_watermark(1)
    node.clock.advance(2 * HOUR_MS)

    for _ in range(3):
        manager.maintenance.tick(node.clock.monotonic_ms())
        node.clock.advance(node.manager_config.retention_check_interval_ms)

    assert sum(log.log_start_offset for log in manager.logs()) == count


def test_periodic_work_skips_a_log_that_was_deleted_meanwhile(node: Any, make_batch: MakeBatch) -> None:
    node.config = LogConfig(retention_ms=HOUR_MS, file_delete_delay_ms=0)
    manager = node.start()
    for partition in range(2 * ITEMS_PER_SLICE):
        log = node.create(manager, partition=partition)
        append(log, make_batch(1))
        log.update_high_watermark(1)
    node.clock.advance(2 * HOUR_MS)
    manager.maintenance.tick(node.clock.monotonic_ms())

    for log in list(manager.logs()):
        manager.delete(log.topic_partition)
        node.disk.remove_tree(log.directory)
    manager.maintenance.tick(node.clock.monotonic_ms())

    assert node.failures == []

"""Compaction and moves between log directories: a log is not cleaned while it is copied, and no deleted key returns."""

from collections.abc import Callable

import pytest

from directory_move_steps import T0, directory, end_move, move, restart, single, throttle
from ottla.log.config import LogConfig
from ottla.wire.records import Record, build_batch, read_records
from replicating_brokers import Broker, Cluster

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0, delete_retention_ms=1_000
)


@pytest.fixture
def compacted(new_cluster: Callable[..., Cluster]) -> Cluster:
    """One broker with three log directories; topic t is compacted, and has one partition, in /data."""
    return single(new_cluster, COMPACTED)


def append(cluster: Cluster, key: bytes, value: bytes | None) -> None:
    log, now_ms = cluster[1].partition().log, cluster.clock.wall_ms()
    log.append_as_leader(bytearray(build_batch([Record(0, now_ms, key, value)])), leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(log.log_end_offset)


def append_deleted_key(cluster: Cluster) -> None:
    """Append k=v, its tombstone, and other keys, in segments that can be compacted."""
    append(cluster, b"k", b"v" * 300)
    append(cluster, b"k", None)
    fill_segments(cluster)


def fill_segments(cluster: Cluster) -> None:
    for number in range(3):
        append(cluster, b"other-%d" % number, b"x" * 300)
    cluster[1].partition().log.flush()
    cluster.settle()


def clean(cluster: Cluster) -> None:
    """Let the cleaner run, and tombstones become due."""
    for _ in range(10):
        cluster.clock.advance(20_000)
        cluster[1].logs.maintenance.tick(cluster.clock.monotonic_ms())
        cluster.settle()


def values_of_key(broker: Broker, key: bytes) -> list[bytes | None]:
    batches = broker.batches()
    return [each.value for batch in batches for each in read_records(batch, size_bytes_max=1 << 20) if each.key == key]


def test_compaction_during_a_move_brings_no_deleted_key_back(compacted: Cluster) -> None:
    append_deleted_key(compacted)
    throttle(compacted[1], 1)
    move(compacted[1], "/data2")
    throttle(compacted[1], 300)
    compacted.run(1_000)
    future = compacted[1].logs.futures.get(T0)
    assert future is not None
    assert 0 < future.log_end_offset < compacted[1].partition().log.log_end_offset

    clean(compacted)
    throttle(compacted[1], 1 << 40)
    compacted.run(2_000)
    assert directory(compacted[1]) == "/data2/t-0"
    for _ in range(3):
        fill_segments(compacted)
        clean(compacted)

    assert values_of_key(compacted[1], b"k") == []


def test_log_is_compacted_after_its_move(compacted: Cluster) -> None:
    append_deleted_key(compacted)
    move(compacted[1], "/data2")
    compacted.run(2_000)

    fill_segments(compacted)
    clean(compacted)

    assert compacted[1].partition().log.first_dirty_offset > 2


def test_cleaning_under_way_is_given_up_when_a_move_starts(compacted: Cluster) -> None:
    append_deleted_key(compacted)
    throttle(compacted[1], 1)
    cleaner = compacted[1].logs.maintenance.cleaner
    assert cleaner is not None
    compacted.clock.advance(20_000)
    while not cleaner._jobs:
        compacted.clock.advance(1_000)
        compacted[1].logs.maintenance.tick(compacted.clock.monotonic_ms())
        if not cleaner._jobs:
            compacted.settle()

    move(compacted[1], "/data2")
    compacted.settle()

    assert compacted[1].partition().log.first_dirty_offset == 0
    assert not cleaner._jobs


@pytest.mark.parametrize("restarts", [False, True])
def test_copy_of_a_failed_move_starts_again_if_the_log_was_compacted(compacted: Cluster, restarts: bool) -> None:
    append_deleted_key(compacted)
    throttle(compacted[1], 300)
    move(compacted[1], "/data2")
    compacted.run(1_000)
    end_move(compacted)
    clean(compacted)
    assert compacted[1].partition().log.first_dirty_offset > 2
    fill_segments(compacted)
    clean(compacted)
    assert values_of_key(compacted[1], b"k") == []

    throttle(compacted[1], 1 << 40)
    if restarts:
        restart(compacted, 1, is_clean=True)
    else:
        move(compacted[1], "/data2")
    compacted.run(2_000)

    assert directory(compacted[1]) == "/data2/t-0"
    assert values_of_key(compacted[1], b"k") == []

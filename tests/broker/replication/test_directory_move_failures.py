"""Moves between log directories that end early or wait: retried ones, failing disks, crashes, shortages."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from directory_move_steps import T0, copy_everything, directory, end_move, fill, move, restart, single
from ottla.errors import ErrorCode, ShortageError, StorageError
from ottla.log.checkpoint import RECOVERY_POINT_CHECKPOINT, read_offsets
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster import DIRECTORY_LOST
from ottla.purgatory.steps import Steps
from ottla.replication.leader_syncs import LeaderSyncs
from ottla.replication.partition import Partition
from ottla.simulator.world.clock import SimulatedClock
from replicating_brokers import DIRECTORIES, Broker, Cluster


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    """One broker with three log directories; topic t has one partition, in /data."""
    return single(new_cluster, LogConfig(segment_bytes=4_000))


# --- retried moves


def test_retried_move_truncates_the_copy_to_what_the_log_has(cluster: Cluster) -> None:
    values = fill(cluster, 20)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    end_move(cluster)

    broker.partition().log.truncate_to(5)
    cluster.controller.change(leader=1)
    cluster.settle()
    values = [*values[:5], *(b"new %d" % number for number in range(30))]
    for value in values[5:]:
        broker.produce(value)
        cluster.settle()
    assert move(broker, "/data2") == ErrorCode.NONE
    cluster.run(2_000)

    assert directory(broker) == "/data2/t-0"
    assert broker.values() == values


# --- copies without a log


def stop_reported_move(cluster: Cluster) -> None:
    """Kill the process after the metadata names /data2, before the copy there replaces the log in /data."""
    broker = cluster[1]
    move(broker, "/data2")
    while not broker.replicas.moves.is_reported(T0):
        cluster.clock.advance(25)
        broker.background.complete_work()
        broker.disk.complete_syncs()
        broker.replicas.tick(cluster.clock.monotonic_ms())
    cluster.controller.change(directories=[DIRECTORIES["/data2"]])
    assert directory(broker) == "/data/t-0"
    broker.disk.kill()


def test_reported_copy_is_used_if_the_source_disk_was_replaced(cluster: Cluster) -> None:
    values = fill(cluster)
    stop_reported_move(cluster)
    cluster[1].disk.remove_tree("/data/t-0")

    restart(cluster, 1)

    assert directory(cluster[1]) == "/data2/t-0"
    assert cluster[1].values() == values
    cluster[1].disk.crash()
    restart(cluster, 1)
    assert cluster[1].values() == values


def test_reported_copy_of_another_topic_is_not_used(cluster: Cluster) -> None:
    fill(cluster)
    stop_reported_move(cluster)
    cluster[1].disk.remove_tree("/data/t-0")
    cluster.controller.delete_topic("t")
    cluster.controller.create_topic("t", (1,))
    cluster.controller.change(directories=[DIRECTORIES["/data2"]])

    restart(cluster, 1)

    assert cluster[1].values() == []
    assert cluster[1].logs.futures.get(T0) is None


def test_cancelled_move_keeps_the_replaced_log_until_the_new_name_is_synced(cluster: Cluster) -> None:
    """Else a power cut leaves neither: the deletion in /data has been synced, the new name in /data2 has not."""
    values = fill(cluster)
    broker = cluster[1]
    broker.partition().log.flush()
    move(broker, "/data2")
    while directory(broker) != "/data2/t-0":
        broker.disk.complete_syncs()
        cluster.clock.advance(25)
        cluster.slow_disks.add(1)
        cluster.settle()

    assert move(broker, "/data3") == ErrorCode.NONE
    assert move(broker, "/data2") == ErrorCode.NONE
    assert broker.disk.exists("/data/t-0")
    broker.disk.complete_syncs()

    assert not broker.disk.exists("/data/t-0")
    assert broker.values() == values


# --- failing directories


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_failure_of_the_source_is_reported_after_the_target_was(cluster: Cluster, is_acknowledged: bool) -> None:
    """The metadata names /data2, which works: the controller elects another leader only if the replica is lost."""
    fill(cluster)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    broker.disk.complete_syncs()
    while not broker.replicas.moves.is_reported(T0):
        cluster.clock.advance(25)
        broker.replicas.tick(cluster.clock.monotonic_ms())
        broker.disk.complete_syncs()
    if is_acknowledged:
        while cluster.step():
            pass
    assert directory(broker) == "/data/t-0"

    broker.disk.break_directory("/data")
    broker.produce(b"fails")
    cluster.run(2_000)

    request = cluster.controller.assigned_directories[-1]
    assert [each.id for each in request.directories] == [DIRECTORY_LOST]


def test_replacement_waits_for_a_descriptor(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    values = fill(cluster)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    open_file = broker.disk.open
    failures = [OSError(errno.EMFILE, "Too many open files")]

    def fail_once(name: str, **options: bool) -> object:
        if name == "/data2" and failures:
            raise failures.pop()
        return open_file(name, **options)

    monkeypatch.setattr(broker.disk, "open", fail_once)
    cluster.run(5_000)

    assert not failures
    assert broker.logs.offline_directories() == []
    assert directory(broker) == "/data2/t-0"
    assert broker.values() == values


def test_sync_of_a_copy_waits_for_descriptors(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    values = fill(cluster)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    flush_later = PartitionLog.flush_later
    failures = [ShortageError("Too many open files")]

    def fail_once(log: PartitionLog, done: Callable[[StorageError | None], None]) -> None:
        if failures:
            raise failures.pop()
        flush_later(log, done)

    monkeypatch.setattr(PartitionLog, "flush_later", fail_once)
    cluster.run(5_000)

    assert not failures
    assert directory(broker) == "/data2/t-0"
    assert broker.values() == values


def test_replaced_log_is_not_used_while_the_named_directory_is_offline(cluster: Cluster) -> None:
    fill(cluster)
    broker = cluster[1]
    move(broker, "/data2")
    cluster.slow_disks.add(1)
    while directory(broker) != "/data2/t-0":
        broker.disk.complete_syncs()
        cluster.clock.advance(25)
        cluster.settle()
    cluster.controller.change(directories=[DIRECTORIES["/data2"]])
    cluster.slow_disks.clear()
    assert broker.disk.exists("/data/t-0")
    count = len(cluster.controller.assigned_directories)

    broker.disk.kill()
    broker.disk.break_directory("/data2")
    broker.start()
    cluster.run(2_000)

    assert broker.replicas.find("t", 0) is None
    assert len(cluster.controller.assigned_directories) == count


# --- copying


def recovery_point_on_disk(broker: Broker) -> int:
    return read_offsets(broker.disk, f"/data2/{RECOVERY_POINT_CHECKPOINT}")[T0]


def test_truncated_copy_grows_after_its_lower_recovery_point_is_written(cluster: Cluster) -> None:
    fill(cluster, 20)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    future = broker.logs.futures.get(T0)
    assert future is not None
    future.flush()
    cluster.clock.advance(60_000)
    broker.logs.maintenance.tick(cluster.clock.monotonic_ms())
    broker.disk.complete_syncs()
    assert recovery_point_on_disk(broker) == 20

    broker.partition().log.truncate_to(5)
    cluster.clock.advance(25)
    broker.replicas.tick(cluster.clock.monotonic_ms())
    assert future.log_end_offset == 5
    for number in range(10):
        broker.produce(b"new %d" % number, acks=1)
    for _ in range(20):
        cluster.clock.advance(25)
        broker.replicas.tick(cluster.clock.monotonic_ms())
        broker.background.complete_work()
        assert future.log_end_offset <= 5
    cluster.run(2_000)

    assert directory(broker) == "/data2/t-0"
    assert len(broker.values()) == 15


def test_deleted_segments_of_a_copy_are_removed_at_once(cluster: Cluster) -> None:
    fill(cluster, 40)
    broker = cluster[1]
    move(broker, "/data2")
    copy_everything(cluster)
    log = broker.partition().log
    log.delete_records_before(33)
    for _ in range(3):
        cluster.clock.advance(25)
        broker.replicas.tick(cluster.clock.monotonic_ms())

    copied = [path for path in broker.disk.paths() if "-future/" in path]
    assert copied
    assert not [path for path in copied if path.endswith(".deleted")]
    assert not [path for path in copied if path.endswith("/00000000000000000000.log")]


def test_each_segment_from_before_the_move_is_read_off_the_loop(cluster: Cluster) -> None:
    fill(cluster, 40)
    broker = cluster[1]
    segments = len(broker.partition().log.segments())
    assert segments > 3
    count = broker.background.run_count

    move(broker, "/data2")
    copy_everything(cluster)

    assert broker.background.run_count - count >= segments


def test_error_of_replaced_files_does_not_end_the_log(cluster: Cluster) -> None:
    """A lookup by time and a sync that were under way at the replacement fail; the log has other files then."""
    values = fill(cluster)
    broker = cluster[1]
    log = broker.partition().log

    def lookup() -> Steps[None]:
        yield None
        raise StorageError("cannot read the replaced files")

    steps = log._guarded_steps(lookup())
    next(steps)
    move(broker, "/data2")
    cluster.run(2_000)
    assert directory(broker) == "/data2/t-0"

    with pytest.raises(StorageError):
        next(steps)
    assert log.failure is None
    assert broker.values() == values


def test_leader_syncs_again_after_a_sync_of_replaced_files_has_failed() -> None:
    outcomes: list[Callable[[StorageError | None], None]] = []
    synced: list[Partition] = []
    syncs = LeaderSyncs(SimulatedClock(), synced.append)
    partition: Any = SimpleNamespace(
        topic_partition=T0,
        log=SimpleNamespace(confirmable_offset=0, log_end_offset=1, failure=None, flush_later=outcomes.append),
    )

    syncs.start_if_due(partition)
    outcomes.pop()(StorageError("cannot sync the replaced files"))

    assert synced == [partition]

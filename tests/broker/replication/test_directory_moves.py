"""Moves between the log directories of a node: led, followed, truncated and failing replicas, restarts, the quota."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from directory_move_steps import T0, described, directory, fill, leftovers, move, restart, throttle
from ottla.errors import ErrorCode
from ottla.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from ottla.log.config import LogConfig
from ottla.replication.config import ReplicationConfig
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.records import Record, build_batch
from replicating_brokers import DIRECTORIES, Cluster


@pytest.fixture
def cluster(new_cluster: Callable[..., Cluster]) -> Cluster:
    """Two brokers with three log directories; topic t has one partition, led by node 1, in /data on both."""
    made = new_cluster(2, directory_count=3, config=LogConfig(segment_bytes=4_000, min_insync_replicas=1))
    made.controller.create_topic("t", (1, 2))
    made.settle()
    return made


@pytest.mark.parametrize("node_id", [pytest.param(1, id="leader"), pytest.param(2, id="follower")])
def test_replica_is_moved(cluster: Cluster, node_id: int) -> None:
    values = fill(cluster)
    broker = cluster[node_id]

    assert move(broker, "/data2") == ErrorCode.NONE
    cluster.run(2_000)

    assert directory(broker) == "/data2/t-0"
    assert broker.values() == values
    (request,) = cluster.controller.assigned_directories
    assert [each.id for each in request.directories] == [DIRECTORIES["/data2"]]
    cluster[1].produce(b"next")
    cluster.run(1_000)
    assert broker.values() == [*values, b"next"]
    assert broker.partition().log.high_watermark == len(values) + 1
    cluster.run(120_000)
    broker.logs.maintenance.tick(cluster.clock.monotonic_ms())
    assert leftovers(broker) == {"/data2/t-0"}


def test_appends_during_a_move_are_copied(cluster: Cluster) -> None:
    values = fill(cluster, 20)
    move(cluster[1], "/data2")
    for number in range(200):
        values.append(b"late %d" % number)
        cluster[1].produce(values[-1])
        cluster.clock.advance(1)
        cluster.settle()
    cluster.run(1_000)

    assert directory(cluster[1]) == "/data2/t-0"
    assert cluster[1].values() == cluster[2].values() == values


def test_throttled_copy_is_described_with_its_lag(cluster: Cluster) -> None:
    fill(cluster, 50)
    throttle(cluster[1])

    move(cluster[1], "/data2")

    assert described(cluster[1]) == {"/data": [(False, 0)], "/data2": [(True, 50)], "/data3": []}


def test_second_move_replaces_the_first(cluster: Cluster) -> None:
    values = fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")
    cluster.run(500)

    assert move(cluster[1], "/data3") == ErrorCode.NONE
    assert described(cluster[1]) == {"/data": [(False, 0)], "/data2": [], "/data3": [(True, 50)]}
    throttle(cluster[1], 1 << 40)
    cluster.run(2_000)

    assert directory(cluster[1]) == "/data3/t-0"
    assert cluster[1].values() == values


def test_move_to_the_present_directory_cancels_another(cluster: Cluster) -> None:
    fill(cluster)
    move(cluster[1], "/data2")

    assert move(cluster[1], "/data") == ErrorCode.NONE
    cluster.run(2_000)

    assert described(cluster[1]) == {"/data": [(False, 0)], "/data2": [], "/data3": []}
    assert not len(cluster[1].replicas.moves)


def test_move_back_and_forth_keeps_every_record(cluster: Cluster) -> None:
    values = fill(cluster)
    for path in ("/data2", "/data", "/data3", "/data"):
        move(cluster[1], path)
        cluster.run(1_000)
        values.append(path.encode())
        cluster[1].produce(values[-1])
        cluster.run(500)

        assert directory(cluster[1]) == f"{path}/t-0"
        assert cluster[1].values() == values


def test_truncated_log_truncates_its_copy(cluster: Cluster) -> None:
    """Node 1 truncates a record that node 2 lacks, and the copy, which is complete and synced, has it too."""
    values = fill(cluster, 10)
    broker = cluster[1]
    cluster.cuts.add((2, 1))
    broker.produce(b"lost", acks=1)
    move(broker, "/data2")
    future = broker.logs.futures.get(T0)
    assert future is not None
    for _ in range(100):
        if future.recovery_point == 11:
            break
        cluster.clock.advance(25)
        broker.replicas.tick(cluster.clock.monotonic_ms())
        broker.background.complete_work()
        broker.disk.complete_syncs()
    assert (future.log_end_offset, future.recovery_point) == (11, 11)

    broker.partition().log.truncate_to(10)
    cluster.run(2_000)

    assert directory(broker) == "/data2/t-0"
    assert broker.values() == values


def test_deleted_topic_ends_its_move(cluster: Cluster) -> None:
    fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")

    cluster.controller.delete_topic("t")
    cluster.settle()

    assert not len(cluster[1].replicas.moves)
    assert cluster[1].logs.futures.get(T0) is None


def test_failure_of_the_target_ends_the_move(cluster: Cluster) -> None:
    values = fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")
    cluster[1].disk.break_directory("/data2")
    throttle(cluster[1], 1 << 40)
    cluster.run(2_000)

    assert directory(cluster[1]) == "/data/t-0"
    assert cluster[1].values() == values
    assert cluster[1].replicas.moves.failed == {T0}
    assert move(cluster[1], "/data2") == ErrorCode.KAFKA_STORAGE_ERROR
    assert move(cluster[1], "/data3") == ErrorCode.KAFKA_STORAGE_ERROR, "the offline directory may have a copy"


def test_failure_of_the_source_keeps_the_copy_for_the_next_process(cluster: Cluster) -> None:
    values = fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")
    cluster[1].disk.break_directory("/data")
    cluster[1].produce(b"fails")
    cluster.settle()
    assert cluster[1].replicas.find("t", 0) is None
    assert not len(cluster[1].replicas.moves)

    cluster[1].disk.repair_directories()
    restart(cluster, 1)
    cluster.run(2_000)

    assert directory(cluster[1]) == "/data2/t-0"
    assert cluster[1].values()[: len(values)] == values


@pytest.mark.parametrize("is_clean", [pytest.param(True, id="clean-stop"), pytest.param(False, id="kill")])
def test_restarted_node_continues_the_move(cluster: Cluster, is_clean: bool) -> None:
    values = fill(cluster)
    throttle(cluster[1], 1 << 40)
    move(cluster[1], "/data2")
    cluster[1].replicas.tick(cluster.clock.monotonic_ms())
    (copy,) = [path for path in leftovers(cluster[1]) if path.endswith("-future")]

    restart(cluster, 1, is_clean=is_clean)
    assert leftovers(cluster[1]) == {"/data/t-0", copy}
    cluster.run(2_000)

    assert directory(cluster[1]) == "/data2/t-0"
    assert cluster[1].values() == values


def test_topic_created_again_does_not_use_the_old_copy(cluster: Cluster) -> None:
    fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")
    cluster.controller.delete_topic("t")
    cluster.controller.create_topic("t", (1, 2))

    restart(cluster, 1)
    cluster.run(2_000)

    assert cluster[1].values() == []
    assert cluster[1].logs.futures.get(T0) is None


def test_confirmed_records_stay_confirmed(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(1, directory_count=2, config=LogConfig(flush_messages=1))
    cluster.controller.create_topic("t", (1,))
    cluster.settle()
    move(cluster[1], "/data2")
    log = cluster[1].partition().log
    confirmed = 0
    for number in range(100):
        cluster[1].produce(b"%d" % number, acks=1)
        cluster.clock.advance(1)
        cluster.pump(1)
        assert log.confirmable_offset >= confirmed
        confirmed = log.confirmable_offset
    cluster.run(500)

    assert log.directory == "/data2/t-0"
    assert log.confirmable_offset == log.log_end_offset == 100


def test_log_start_is_followed(cluster: Cluster) -> None:
    values = fill(cluster)
    throttle(cluster[1])
    move(cluster[1], "/data2")
    log = cluster[1].partition().log
    log.delete_records_before(33)
    log.apply_retention(cluster.clock.wall_ms())
    throttle(cluster[1], 1 << 40)
    cluster.run(2_000)

    assert directory(cluster[1]) == "/data2/t-0"
    assert log.log_start_offset == 33
    assert cluster[1].values() == values[33:]


def test_only_so_many_moves_run_at_once(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(1, directory_count=2, replication=ReplicationConfig(directory_move_threads=1))
    cluster.controller.create_topic("t", (1,), (1,))
    cluster.settle()
    for index in (0, 1):
        cluster[1].produce(b"x" * 100, index=index)
    throttle(cluster[1])
    for index in (0, 1):
        move(cluster[1], "/data2", index=index)
    cluster.run(1_000)

    future = cluster[1].logs.futures.get(TopicPartition("t", 1))
    assert future is not None
    assert future.log_end_offset == 0
    throttle(cluster[1], 1 << 40)
    cluster.run(2_000)
    assert {cluster[1].partition(index).log.directory for index in (0, 1)} == {"/data2/t-0", "/data2/t-1"}


def test_new_log_is_created_in_the_directory_that_was_requested_before(cluster: Cluster) -> None:
    assert move(cluster[1], "/data3", topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    cluster.controller.create_topic("u", (1, 2))
    cluster.settle()

    assert cluster[1].partition(topic="u").log.directory == "/data3/u-0"
    assert cluster[2].partition(topic="u").log.directory == "/data/u-0"


@pytest.mark.parametrize(
    ("path", "topic", "index", "code"),
    [
        pytest.param("/nowhere", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND, id="not-configured"),
        pytest.param("data2", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND, id="relative"),
        pytest.param("", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND, id="empty"),
        pytest.param("/data2/", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND, id="trailing-slash"),
        pytest.param("/nowhere", "nope", 0, ErrorCode.LOG_DIR_NOT_FOUND, id="unknown-topic-not-configured"),
        pytest.param("/data2", "nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown-topic"),
        pytest.param("/data2", "t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown-partition"),
        pytest.param("/data2", "t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="negative-partition"),
        pytest.param("/data2", "b@d", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="invalid-name"),
        pytest.param("/data2", "other", 0, ErrorCode.REPLICA_NOT_AVAILABLE, id="on-other-nodes"),
        pytest.param("/data2", "L" * 214, 0, ErrorCode.INVALID_TOPIC_EXCEPTION, id="name-too-long"),
        pytest.param("/data2", "L" * 213, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="longest-name"),
        pytest.param("/data3", "t", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="cordoned"),
        pytest.param("/data3", "nope", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="cordoned-unknown-topic"),
        pytest.param("/data", "t", 0, ErrorCode.NONE, id="where-it-is"),
    ],
)
def test_errors_are_those_of_kafka(cluster: Cluster, path: str, topic: str, index: int, code: ErrorCode) -> None:
    """Recorded from JVM Kafka 4.3.1: one node with three directories, and two nodes for ``on-other-nodes``."""
    cluster.controller.create_topic("other", (2,))
    cluster.settle()
    cluster[1].logs.choice.cordon(["/data3"])

    assert move(cluster[1], path, topic=topic, index=index) == code


def test_rejected_request_is_served_in_steps() -> None:
    """One of a client without rights may name a hundred thousand partitions too."""
    count = 1_000
    topics = [AlterReplicaLogDirTopic(name="t", partitions=list(range(count)))]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/data2", topics=topics)])
    context: Any = SimpleNamespace(may_on_cluster=lambda _: False)

    steps = alter_replica_log_dirs(context, request)

    assert sum(1 for _ in steps) >= count


def test_last_directory_of_a_partition_counts(cluster: Cluster) -> None:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[0, 0])]
    dirs = [AlterReplicaLogDir(path=path, topics=topics) for path in ("/data2", "/nowhere")]

    (response,) = cluster[1].ask(AlterReplicaLogDirsRequest(dirs=dirs), 1)

    (result,) = response.results
    assert [(each.partition_index, each.error_code) for each in result.partitions] == [(0, ErrorCode.LOG_DIR_NOT_FOUND)]


def test_directory_of_the_metadata_is_used_after_a_crash_at_the_replacement(cluster: Cluster) -> None:
    """Killed after the copy has the log's name, and before the replaced directory has lost it."""
    values = fill(cluster)
    move(cluster[1], "/data2")
    cluster.slow_disks.add(1)
    for _ in range(100):
        cluster.clock.advance(25)
        cluster.settle()
        if directory(cluster[1]) == "/data2/t-0":
            break
        cluster[1].disk.complete_syncs()
    cluster.controller.change(directories=[DIRECTORIES["/data2"], Uuid(b"d" * 16)])
    cluster.slow_disks.clear()
    assert {"/data/t-0", "/data2/t-0"} <= leftovers(cluster[1])

    restart(cluster, 1)

    assert directory(cluster[1]) == "/data2/t-0"
    assert cluster[1].values() == values


def test_end_and_epochs_without_records_are_copied(new_cluster: Callable[..., Cluster]) -> None:
    """Compaction may remove the last records before a roll, and the first ones of an epoch."""
    cluster = new_cluster(1, directory_count=2, config=LogConfig(cleanup_policy=frozenset({"compact"})))
    cluster.controller.create_topic("t", (1,))
    cluster.settle()
    for _ in range(4):
        cluster.controller.change(leader=1)
    cluster.settle()
    log, now_ms = cluster[1].partition().log, cluster.clock.wall_ms()
    log.append_as_leader(bytearray(build_batch([Record(0, now_ms, b"k", b"v")])), leader_epoch=0, now_ms=now_ms)
    log.assign_epoch_start_offset(3, 5)
    log.skip_to(10)
    log.assign_epoch_start_offset(4, 10)
    log.skip_to(20)

    move(cluster[1], "/data2")
    cluster.run(2_000)
    assert (log.directory, log.log_end_offset) == ("/data2/t-0", 20)
    assert log.offset_for_leader_epoch(3) == (10, 3)
    restart(cluster, 1, is_clean=True)

    assert cluster[1].partition().log.log_end_offset == 20
    assert cluster[1].partition().log.offset_for_leader_epoch(3) == (10, 3)

"""Deleted partitions are no longer served at once, and their logs are deleted a few per tick."""

from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode
from ottla.log.manager import DELETE_DIRECTORY_SUFFIX
from ottla.replication.metadata_publisher import REMOVED_PER_TICK
from replicating_brokers import DIRECTORIES, Broker, Cluster

PARTITIONS = 3 * REMOVED_PER_TICK


@pytest.fixture
def wide(new_cluster: Callable[..., Cluster]) -> Cluster:
    """One broker that leads every partition of topic wide."""
    cluster = new_cluster(1, directory_count=2)
    cluster.controller.create_topic("wide", *[(1,)] * PARTITIONS)
    apply_all(cluster)
    return cluster


def apply_all(cluster: Cluster) -> None:
    """Let every broker learn the metadata and apply all of it."""
    cluster.settle()
    while any(broker.replicas.metadata_publisher.has_changes_left for broker in cluster.up()):
        cluster.settle()


def deleted_logs(broker: Broker) -> int:
    """Return how many directories of logs wait for their removal."""
    names = [name for directory in ("/data", "/data2") for name in broker.disk.list_directory(directory)]
    return sum(name.endswith(DELETE_DIRECTORY_SUFFIX) for name in names)


def produced(broker: Broker, index: int, value: bytes = b"a") -> ErrorCode:
    responses = broker.produce(value, topic="wide", index=index)
    broker.cluster.settle()
    (response,) = responses
    return ErrorCode(response.error_code)


def test_logs_of_a_deleted_topic_are_deleted_a_few_per_tick(wide: Cluster) -> None:
    broker = wide[1]
    wide.controller.delete_topic("wide")
    broker.learn()
    counts = [deleted_logs(broker)]
    while broker.replicas.next_deadline_ms() == wide.clock.monotonic_ms():
        broker.replicas.tick(wide.clock.monotonic_ms())
        counts.append(deleted_logs(broker))

    assert counts == [REMOVED_PER_TICK, 2 * REMOVED_PER_TICK, PARTITIONS]


def test_partitions_whose_logs_wait_to_be_deleted_are_served_no_more(wide: Cluster) -> None:
    broker = wide[1]
    wide.controller.delete_topic("wide")
    broker.learn()
    last = broker.produce(b"a", topic="wide", index=PARTITIONS - 1)

    assert deleted_logs(broker) < PARTITIONS
    assert len(broker.replicas) == 0
    assert ErrorCode(last[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_request_that_waits_for_a_deleted_partition_is_responded_to(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(2)
    cluster.controller.create_topic("wide", *[(1, 2)] * PARTITIONS)
    apply_all(cluster)
    cluster.cuts.add((2, 1))
    waiting = cluster[1].produce(b"a", topic="wide", index=PARTITIONS - 1)
    assert not waiting
    cluster.controller.delete_topic("wide")
    apply_all(cluster)

    assert ErrorCode(waiting[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_topic_that_is_created_again_while_its_old_logs_wait_has_new_ones(wide: Cluster) -> None:
    broker = wide[1]
    assert produced(broker, PARTITIONS - 1, b"old") is ErrorCode.NONE
    wide.controller.delete_topic("wide")
    broker.learn()
    wide.controller.create_topic("wide", *[(1,)] * PARTITIONS)
    broker.learn()

    assert produced(broker, PARTITIONS - 1, b"new") is ErrorCode.NONE
    assert broker.values(PARTITIONS - 1, "wide") == [b"new"]
    apply_all(wide)
    assert deleted_logs(broker) == PARTITIONS
    assert len(broker.replicas) == PARTITIONS


def test_close_deletes_the_logs_that_wait(wide: Cluster) -> None:
    """Else the next start would find them as strays, which are kept."""
    broker = wide[1]
    wide.controller.delete_topic("wide")
    broker.learn()
    assert deleted_logs(broker) < PARTITIONS
    broker.replicas.metadata_publisher.close()

    assert deleted_logs(broker) == PARTITIONS


def test_failed_deletion_takes_only_its_directory_offline(wide: Cluster) -> None:
    broker = wide[1]
    wide.controller.create_topic("other", (1,))
    wide.controller.change(topic="other", directories=[DIRECTORIES["/data2"]])
    wide.settle()
    assert broker.partition(0, "other").log.parent_directory == "/data2"
    broker.disk.break_directory("/data")
    wide.controller.delete_topic("wide")
    apply_all(wide)

    assert broker.logs.offline_directories() == ["/data"]
    assert [partition.topic_partition.topic for partition in broker.replicas] == ["other"]
    assert ErrorCode(broker.produce(b"a", topic="other")[0].error_code) is ErrorCode.NONE

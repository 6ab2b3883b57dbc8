"""Records are on disk before they are confirmed: by a leader to producers, by a follower to its leader."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, ShortageError, StorageError
from ottla.log.partition_log import PartitionLog
from ottla.replication.config import ReplicationConfig
from ottla.wire.messages.fetch import FetchRequest

FSYNC = {"ottla.acks.fsync": "true"}
FLUSH = {"flush.messages": "1"}


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """Return two brokers; node 1 leads t, which is fsynced, and u, which is not."""
    cluster_ = new_cluster(2, replication=ReplicationConfig(lag_time_max_ms=1_000_000))
    cluster_.controller.create_topic("t", (1, 2))
    cluster_.controller.create_topic("u", (1, 2))
    cluster_.run(1_100)
    return cluster_


def configure(cluster: Any, values: dict[str, str]) -> None:
    for key, value in values.items():
        cluster.controller.configure("t", key, value)
    cluster.run(1_100)


def sync_now(cluster: Any, node_id: int) -> None:
    cluster[node_id].disk.complete_syncs()
    cluster.settle()


@pytest.mark.parametrize("values", [FSYNC, FLUSH], ids=["acks-fsync", "flush-messages"])
def test_high_watermark_waits_for_the_disks_of_leader_and_follower(cluster: Any, values: dict[str, str]) -> None:
    configure(cluster, values)
    cluster.slow_disks |= {1, 2}
    responses = cluster[1].produce(b"a")
    cluster.settle()
    assert cluster[2].values() == [b"a"], "the follower has appended it"

    sync_now(cluster, 1)
    assert (responses, cluster[1].partition().log.high_watermark) == ([], 0)
    sync_now(cluster, 2)

    assert [response.error_code for response in responses] == [0]
    for node_id in (1, 2):
        path = next(path for path in cluster[node_id].disk.paths() if path.endswith("t-0/00000000000000000000.log"))
        assert cluster[node_id].disk.durable_contents(path)


@pytest.mark.parametrize("values", [FSYNC, FLUSH], ids=["acks-fsync", "flush-messages"])
def test_acks_one_waits_for_the_disk_of_the_leader_alone(cluster: Any, values: dict[str, str]) -> None:
    configure(cluster, values)
    cluster.slow_disks |= {1, 2}
    responses = cluster[1].produce(b"a", acks=1)
    cluster.settle()
    assert responses == []

    sync_now(cluster, 1)

    assert [response.error_code for response in responses] == [0]


@pytest.mark.parametrize("values", [FSYNC, FLUSH], ids=["acks-fsync", "flush-messages"])
def test_append_does_not_sync_on_the_loop(cluster: Any, values: dict[str, str]) -> None:
    configure(cluster, values)
    cluster.slow_disks |= {1, 2}
    before = [cluster[node_id].disk.operations["sync"] for node_id in (1, 2)]

    cluster[1].produce(b"a")
    cluster.settle()

    assert [cluster[node_id].disk.operations["sync"] for node_id in (1, 2)] == before


@pytest.mark.parametrize("values", [FSYNC, FLUSH], ids=["acks-fsync", "flush-messages"])
def test_other_topics_do_not_wait_for_syncs(cluster: Any, values: dict[str, str]) -> None:
    configure(cluster, values)
    cluster.slow_disks |= {1, 2}
    waiting = cluster[1].produce(b"a")
    cluster.settle()

    responses = cluster[1].produce(b"b", topic="u")
    cluster.settle()

    assert waiting == []
    assert [response.error_code for response in responses] == [0]


def test_one_sync_confirms_all_appends_during_the_previous_one(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.slow_disks.add(2)
    first = cluster[1].produce(b"a")
    cluster.settle()
    others = [cluster[1].produce(b"%d" % number) for number in range(20)]
    cluster.settle()
    before = cluster[2].disk.operations["sync"]

    for _ in range(2):
        sync_now(cluster, 2)
        cluster.run(1_000)

    assert [responses[0].error_code for responses in (first, *others)] == [0] * 21
    assert cluster[2].disk.operations["sync"] - before <= 5, "two syncs, the first one of the epochs as well"


def test_restarted_follower_syncs_its_log_before_it_confirms_it(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.slow_disks.add(2)
    responses = cluster[1].produce(b"a")
    cluster.settle()
    cluster.stop(2)
    cluster.start(2)
    cluster.run(1_100)
    assert cluster[2].values() == [b"a"], "the end of a process leaves the page cache"
    assert responses == []

    sync_now(cluster, 2)
    cluster.run(1_100)

    assert [response.error_code for response in responses] == [0]


def test_former_leader_syncs_its_log_before_it_confirms_it(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.slow_disks.add(1)
    cluster[1].produce(b"a")
    cluster.settle()
    cluster.controller.change(leader=2)
    cluster.run(1_100)
    assert cluster[2].partition().log.high_watermark == 0

    sync_now(cluster, 1)
    cluster.run(1_100)

    assert cluster[2].partition().log.high_watermark == 1


def test_append_after_a_truncation_is_not_confirmed_by_an_older_sync(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.slow_disks.add(2)
    cluster[1].produce(b"a")
    cluster.settle()
    log = cluster[2].partition().log
    log.truncate_to(0)
    cluster.settle()

    cluster[2].disk.complete_syncs()
    cluster.settle()
    assert cluster[1].partition().log.high_watermark == 0
    for _ in range(3):
        sync_now(cluster, 2)
        cluster.run(1_100)

    assert (cluster[2].values(), cluster[1].partition().log.high_watermark) == ([b"a"], 1)


def test_failed_sync_of_the_leader_fails_waiting_produces(cluster: Any) -> None:
    configure(cluster, FLUSH)
    cluster.slow_disks.add(1)
    waiting = [cluster[1].produce(b"a"), cluster[1].produce(b"b", acks=1)]
    cluster[1].disk.fail_next("sync", errno.EIO)

    sync_now(cluster, 1)

    assert [responses[0].error_code for responses in waiting] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert cluster[1].logs.offline_directories() == ["/data"]


def test_follower_with_a_failed_sync_acknowledges_nothing(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.slow_disks.add(2)
    responses = cluster[1].produce(b"a")
    cluster.settle()
    cluster[2].disk.fail_next("sync", errno.EIO)

    sync_now(cluster, 2)
    cluster.run(1_100)

    assert (responses, cluster[1].partition().log.high_watermark) == ([], 0)
    assert cluster[2].logs.offline_directories() == ["/data"]


@pytest.mark.parametrize("node_id", [1, 2], ids=["leader", "follower"])
def test_sync_without_descriptors_is_postponed_and_confirms_nothing(
    cluster: Any, node_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(cluster, FSYNC)
    flush_later, short = PartitionLog.flush_later, [cluster[node_id].partition().log]

    def flush_or_lack(log: PartitionLog, done: Callable[[StorageError | None], None]) -> None:
        if log in short:
            raise ShortageError("Too many open files")
        flush_later(log, done)

    monkeypatch.setattr(PartitionLog, "flush_later", flush_or_lack)
    responses = cluster[1].produce(b"a")
    cluster.run(1_100)
    assert (responses, cluster[1].partition().log.high_watermark) == ([], 0)
    short.clear()
    cluster.run(1_100)

    assert [response.error_code for response in responses] == [ErrorCode.NONE]
    assert cluster[node_id].logs.offline_directories() == []


def test_acks_fsync_is_altered_while_brokers_run(cluster: Any) -> None:
    cluster.slow_disks |= {1, 2}
    cluster[1].produce(b"unsynced")
    cluster.settle()
    assert cluster[1].partition().log.high_watermark == 1

    configure(cluster, FSYNC)
    responses = cluster[1].produce(b"synced")
    cluster.settle()
    assert responses == []
    for node_id in (1, 2, 2):
        sync_now(cluster, node_id)
    assert [response.error_code for response in responses] == [0]
    waiting = cluster[1].produce(b"not synced again")
    cluster.settle()
    configure(cluster, {"ottla.acks.fsync": "false"})
    sync_now(cluster, 2)

    assert [response.error_code for response in waiting] == [0]
    assert cluster[1].partition().log.recovery_point < 3


def test_partitions_with_syncs_have_separate_fetchers(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster[2].sent.clear()

    cluster.run(1_100)

    connections = {connection for source, _, connection in cluster.connections if source == 2}
    assert connections == {"replica-fetcher-0", "replica-fetcher-synced-0"}
    assert len([request for request in cluster[2].sent if isinstance(request, FetchRequest)]) == 4


def test_restarted_leader_commits_its_log_once_it_is_synced(cluster: Any) -> None:
    configure(cluster, FSYNC)
    cluster.controller.change(replicas=[1], isr=[1])
    cluster.run(1_100)
    cluster.slow_disks.add(1)
    cluster[1].produce(b"a")
    cluster.stop(1)

    cluster.start(1)
    cluster.run(1_100)
    assert (cluster[1].values(), cluster[1].partition().log.high_watermark) == ([b"a"], 0)
    sync_now(cluster, 1)

    assert cluster[1].partition().log.high_watermark == 1

"""A follower copies its leader: every record, every watermark, across failures of the leader."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.replication.config import ReplicationConfig
from ottla.replication.fetch_session_handler import FetchSessionHandler
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.messages.fetch import FetchRequest


def test_follower_copies_records_appended_by_the_leader(pair: Any) -> None:
    responses = pair[1].produce(b"a", b"b")
    pair.settle()

    assert responses[0].error_code == 0
    assert pair[2].values() == [b"a", b"b"]
    assert pair[2].log_bytes() == pair[1].log_bytes()


def test_append_is_committed_by_the_follower_s_next_fetch(pair: Any) -> None:
    responses = pair[1].produce(b"a")
    high_watermark_before = pair[1].partition().log.high_watermark
    pair.settle()

    assert high_watermark_before == 0
    assert responses
    assert pair[1].partition().log.high_watermark == 1


def test_follower_learns_the_high_watermark_within_one_fetch_wait(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.settle()
    at_once = pair[2].partition().log.high_watermark
    pair.run(500)

    assert at_once == 0
    assert pair[2].partition().log.high_watermark == 1


def fetches(broker: Any) -> list[FetchRequest]:
    return [request for request in broker.sent if isinstance(request, FetchRequest)]


def named(request: FetchRequest) -> list[int]:
    return [partition.partition for topic in request.topics for partition in topic.partitions]


def many(new_cluster: Callable[..., Any], count: int, **replication: int) -> Any:
    cluster = new_cluster(2, replication=ReplicationConfig(**replication))
    cluster.controller.create_topic("t", *[(1, 2)] * count)
    cluster.run(1_100)
    return cluster


# --- cost


def test_quiet_partitions_cost_one_empty_request_per_fetch_wait(new_cluster: Callable[..., Any]) -> None:
    cluster = many(new_cluster, 50)
    cluster[2].sent.clear()
    cluster.run(10_000)

    assert len(fetches(cluster[2])) == 20
    assert [named(request) for request in fetches(cluster[2])] == [[]] * 20


def test_fetch_names_only_changed_partitions(new_cluster: Callable[..., Any]) -> None:
    cluster = many(new_cluster, 50)
    cluster[2].sent.clear()
    cluster[1].produce(b"a", index=7)
    cluster[1].produce(b"a", index=9)
    cluster.settle()

    assert [named(request) for request in fetches(cluster[2])] == [[7], [9]]


def test_append_is_fetched_at_once_and_the_next_fetch_is_sent_at_once(pair: Any) -> None:
    pair[2].sent.clear()
    started_ms = pair.clock.monotonic_ms()
    for number in range(5):
        responses = pair[1].produce(b"%d" % number)
        pair.settle()
        assert responses[0].error_code == 0

    assert pair.clock.monotonic_ms() == started_ms
    assert len(fetches(pair[2])) == 5


def test_appends_during_a_fetch_share_the_next_one(pair: Any) -> None:
    responses = [pair[1].produce(b"%d" % number) for number in range(10)]
    pair[2].sent.clear()
    pair.settle()

    assert all(response[0].error_code == 0 for response in responses)
    assert len(fetches(pair[2])) == 2
    assert pair[2].values() == [b"%d" % number for number in range(10)]


def test_partitions_are_distributed_over_the_fetchers(new_cluster: Callable[..., Any]) -> None:
    cluster = many(new_cluster, 40, fetcher_count=3)

    connections = [connection for source, _, connection in cluster.connections if source == 2]
    assert sorted(connections) == ["replica-fetcher-0", "replica-fetcher-1", "replica-fetcher-2"]
    cluster[2].replicas.update_config(ReplicationConfig(fetcher_count=1))
    cluster.settle()
    responses = [cluster[1].produce(b"a", index=index) for index in range(40)]
    cluster.run(1_100)
    assert all(response[0].error_code == 0 for response in responses)


# --- sessions


def test_leader_without_the_session_gets_a_full_fetch_at_once(pair: Any) -> None:
    pair[1].services.fetch_sessions = FetchSessionCache(random=pair.random)
    pair.run(600)
    responses = pair[1].produce(b"a")
    pair.settle()

    assert responses[0].error_code == 0


def test_leader_without_capacity_for_sessions_gets_full_fetches(pair: Any) -> None:
    pair[1].services.fetch_sessions = FetchSessionCache(random=pair.random, slots_max=0)
    pair.run(1_100)
    for _ in range(3):
        responses = pair[1].produce(b"a")
        pair.run(600)
        assert responses[0].error_code == 0


def test_partition_with_another_leader_leaves_the_fetch_session(new_cluster: Callable[..., Any]) -> None:
    cluster = many(new_cluster, 2)
    cluster[2].sent.clear()
    cluster.controller.change(0, leader=2)
    cluster.run(600)
    removed = [request.forgotten_topics_data for request in fetches(cluster[2]) if request.forgotten_topics_data]

    assert [topic.partitions for topics in removed for topic in topics] == [[0]]
    responses = cluster[2].produce(b"a", index=0)
    cluster.settle()
    assert responses[0].error_code == 0


# --- unreachable and former leaders


def test_broken_connection_is_reconnected_at_once(pair: Any) -> None:
    pair.cut(1, 2)
    pair.heal()
    responses = pair[1].produce(b"a")
    pair.settle()

    assert responses[0].error_code == 0


def test_unreachable_leader_is_retried_with_backoff(pair: Any) -> None:
    pair.cut(1, 2)
    pair[2].sent.clear()
    pair.run(10_000)

    assert 12 <= len(fetches(pair[2])) <= 20


def test_returned_leader_is_fetched_when_the_metadata_shows_it(pair: Any) -> None:
    pair.stop(1)
    pair.run(10_000)
    pair[2].sent.clear()
    pair.start(1)
    pair.settle()

    assert len(fetches(pair[2])) >= 1
    responses = pair[1].produce(b"a")
    pair.settle()
    assert responses[0].error_code == 0


def test_follower_that_learns_of_an_election_before_the_leader_is_served_soon(pair: Any) -> None:
    pair.controller.change(leader=1)
    pair[2].learn()
    pair.pump(20)
    for _ in range(10):
        pair.clock.advance(10)
        pair.pump(20)
    pair[1].learn()
    responses = pair[1].produce(b"a")
    pair.run(200)

    assert responses[0].error_code == 0


def test_leader_that_learns_of_an_election_first_does_not_hold_fetches(pair: Any) -> None:
    """Otherwise the follower could fetch the new partition only when its waiting fetch completes."""
    pair.controller.create_topic("u", (1, 2))
    pair[1].learn()
    pair.pump(20)
    pair[2].learn()
    responses = pair[1].produce(b"a", topic="u")
    pair.run(100)

    assert responses
    assert responses[0].error_code == 0


def test_large_new_topic_is_replicated_as_soon_as_its_logs_are_created(pair: Any) -> None:
    """Logs are created a few per tick; after each, the follower's fetch must not wait."""
    pair.controller.create_topic("u", *[(1, 2)] * 30)
    pair.learn()
    pair.pump(60)
    responses = [pair[1].produce(b"a", topic="u", index=index) for index in range(30)]
    for _ in range(12):
        pair.clock.advance(10)
        pair.pump(60)

    assert all(response and response[0].error_code == 0 for response in responses)


def test_follower_that_learns_of_an_election_first_waits_for_one_fetch_at_most(pair: Any) -> None:
    pair.controller.create_topic("u", (1, 2))
    pair[2].learn()
    pair.pump(20)
    pair[1].learn()
    responses = pair[1].produce(b"a", topic="u")
    pair.run(100)

    assert responses
    assert responses[0].error_code == 0


def test_fenced_epoch_is_not_fetched_until_the_metadata_changes(pair: Any) -> None:
    pair.controller.change(leader=1)
    pair[1].learn()
    pair.pump(20)
    pair[2].sent.clear()
    pair.pump(20)
    given_up = len(pair[2].replicas.fetchers)
    pair.run(600)
    responses = pair[1].produce(b"a")
    pair.settle()

    assert given_up == 1
    assert responses[0].error_code == 0


def test_former_leader_rejects_a_follower_with_old_metadata(pair: Any) -> None:
    pair.controller.change(leader=2)
    pair[1].learn()
    pair.run(50)

    assert pair[2].partition().is_leader
    assert not pair[1].partition().is_leader


# --- watermarks


def test_followers_high_watermark_is_never_above_its_log_end(pair: Any) -> None:
    partition = pair[2].partition()
    partition.append_as_follower(b"", high_watermark=100, log_start_offset=0, wall_ms=0)

    assert partition.log.high_watermark == 0


def test_follower_s_high_watermark_does_not_go_back_with_a_new_leader(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    partition = pair[2].partition()
    partition.append_as_follower(b"", high_watermark=0, log_start_offset=0, wall_ms=0)

    assert partition.log.high_watermark == 1


def test_after_a_restart_the_high_watermark_is_that_of_the_checkpoint(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    pair.cut(1, 2)
    pair.stop(2, cleanly=True)
    pair.start(2)
    pair[2].learn()

    assert pair[2].partition().log.high_watermark == 1


def test_delete_records_completes_when_all_followers_have_deleted(trio: Any) -> None:
    for number in range(3):
        trio[1].produce(b"%d" % number)
        trio.settle()
    topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])]
    responses = trio[1].ask(DeleteRecordsRequest(topics=topics, timeout_ms=5_000), 2)
    at_once = list(responses)
    trio.run(600)

    result = responses[0].topics[0].partitions[0]
    assert at_once == []
    assert (result.error_code, result.low_watermark) == (0, 2)
    assert [trio[node_id].partition().log.log_start_offset for node_id in (1, 2, 3)] == [2, 2, 2]


def test_delete_records_waits_for_live_replicas_only(trio: Any) -> None:
    trio[1].produce(b"a")
    trio.settle()
    trio.cut(1, 3)
    topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=2_000)
    while_alive = trio[1].ask(request, 2)
    trio.run(2_100)
    trio.controller.fence(3)
    trio.settle()
    while_dead = trio[1].ask(request, 2)
    trio.run(600)

    assert ErrorCode(while_alive[0].topics[0].partitions[0].error_code) is ErrorCode.REQUEST_TIMED_OUT
    assert while_dead[0].topics[0].partitions[0].low_watermark == 1


def test_retention_on_the_leader_reaches_quiet_followers(pair: Any) -> None:
    pair[1].produce(b"a")
    pair.run(600)
    log = pair[1].partition().log
    log.roll(pair.clock.wall_ms())
    log.raise_log_start(1)
    pair[1].replicas.on_log_start_raised(log.topic_partition)
    pair.run(600)

    assert pair[2].partition().log.log_start_offset == 1


# --- failures


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), MemoryError(), ZeroDivisionError("x\ny" * 200)], ids=repr
)
def test_unexpected_exception_fails_one_partition_until_its_leadership_changes(
    new_cluster: Callable[..., Any],
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = many(new_cluster, 2)
    log = cluster[2].partition(index=0).log

    def append_as_follower(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(log), "append_as_follower", _for_one(log, append_as_follower))
    cluster[1].produce(b"a", index=0, acks=1)
    cluster[1].produce(b"b", index=1)
    cluster.settle()
    fetchers = cluster[2].replicas.fetchers
    failed = (fetchers.failed_count, log.log_end_offset, cluster[2].partition(index=1).log.log_end_offset)
    monkeypatch.undo()
    cluster.controller.change(index=0, leader=1)
    cluster.run(600)

    assert failed == (1, 0, 1)
    assert fetchers.unexpected_error is error
    (line,) = [each.getMessage() for each in caplog.records if "replication failed" in each.getMessage()]
    assert line.startswith(f"t-0: replication failed until the leadership changes: {type(error).__name__}: ")
    assert "\n" not in line
    assert len(line) < 500
    assert (fetchers.failed_count, log.log_end_offset) == (0, 1)


def test_unsendable_fetch_is_retried_and_other_leaders_are_fetched(
    trio: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trio.controller.create_topic("u", (2, 3))
    trio.run(600)
    real = FetchSessionHandler.fill
    broken = trio[3].replicas.fetchers._fetchers[1, trio[3].replicas.fetchers._connection_of(trio[3].partition())]

    def fill(self: FetchSessionHandler, *args: Any) -> None:
        if self is broken._session:
            raise RuntimeError("no way")
        real(self, *args)

    monkeypatch.setattr(FetchSessionHandler, "fill", fill)
    trio.run(1_000)  # the fetch in flight has returned
    trio[1].produce(b"a", acks=1)
    trio[2].produce(b"b", topic="u", acks=1)
    trio.run(2_000)
    behind = (trio[3].partition().log.log_end_offset, trio[3].partition(topic="u").log.log_end_offset)
    monkeypatch.undo()
    trio.run(2_000)

    assert behind == (0, 1)
    assert trio[3].values() == [b"a"]
    assert caplog.text.count("fetch from node 1 could not be sent: RuntimeError: 'no way'") == 1


def test_follower_without_a_descriptor_fetches_again_later(pair: Any, caplog: pytest.LogCaptureFixture) -> None:
    log = pair[2].partition().log
    log.segments()[0].close()
    pair[2].disk.fail_next("open", errno.EMFILE, path_part=".log")
    pair[1].produce(b"a")
    pair.settle()
    behind = log.log_end_offset
    pair.run(1_000)

    assert (behind, log.log_end_offset, log.failure) == (0, 1, None)
    assert "Too many open files" in caplog.text


def test_new_partition_is_opened_again_when_there_was_no_descriptor(pair: Any) -> None:
    for node_id in (1, 2):
        pair[node_id].disk.fail_next("open", errno.EMFILE, path_part="/u-0/")
    pair.controller.create_topic("u", (1, 2))
    pair.run(600)
    responses = pair[1].produce(b"a", topic="u")
    pair.run(600)

    assert responses[0].error_code == 0
    assert pair[2].partition(topic="u").log.log_end_offset == 1
    assert [pair[node_id].replicas._logs.offline_directories() for node_id in (1, 2)] == [[], []]


def _for_one(log: Any, replacement: Callable[..., None]) -> Callable[..., Any]:
    """Return a method that calls ``replacement`` for ``log``, and the real one for other logs."""
    real = type(log).append_as_follower

    def method(self: Any, *args: Any, **options: Any) -> Any:
        return replacement() if self is log else real(self, *args, **options)

    return method

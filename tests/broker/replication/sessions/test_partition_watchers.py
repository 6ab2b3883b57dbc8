"""Partitions that a session checks again: those that changed, and no others."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.replication.sessions.fetch_session import RETRY_MS, FetchedPartition, FetchSession
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.replication.sessions.partition_watchers import PartitionWatchers
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

T0 = TopicPartition("t", 0)
KEY = ("t", ZERO_UUID, 0)


def session(session_id: int = 1, *, is_followers: bool = False) -> FetchSession:
    partitions = {KEY: FetchedPartition(fetch_offset=0)}
    return FetchSession(session_id, 1, False, partitions, 0, 0, is_followers=is_followers)


def test_change_is_noted_once_in_each_session_with_the_partition() -> None:
    watchers, one, other = PartitionWatchers(), session(1), session(2)
    for watching in (one, other, one):
        watchers.watch(T0, watching, KEY, watching.partitions[KEY])

    assert watchers.note_change(T0) == [one, other]
    assert list(one.pending) == [KEY]
    assert watchers.note_change(TopicPartition("t", 1)) == []


@pytest.mark.parametrize("end", ["closed", "removed"])
def test_closed_session_or_removed_partition_is_not_notified(end: str) -> None:
    watchers, one = PartitionWatchers(), session()
    watchers.watch(T0, one, KEY, one.partitions[KEY])
    if end == "closed":
        one.is_open = False
    else:
        one.partitions.clear()

    assert watchers.note_change(T0) == []
    assert list(one.pending) == []


def test_closed_sessions_do_not_accumulate_at_a_quiet_partition() -> None:
    watchers, kept = PartitionWatchers(), session(0)
    watchers.watch(T0, kept, KEY, kept.partitions[KEY])
    for session_id in range(1, 1_000):
        ended = session(session_id)
        watchers.watch(T0, ended, KEY, ended.partitions[KEY])
        ended.is_open = False

    assert len(watchers._watchers[T0]) <= 8
    assert watchers.note_change(T0) == [kept]


def test_partition_removed_and_added_again_is_noted_once() -> None:
    watchers, one = PartitionWatchers(), session()
    for _ in range(3):
        one.partitions[KEY] = FetchedPartition(fetch_offset=0)
        watchers.watch(T0, one, KEY, one.partitions[KEY])

    assert watchers.note_change(T0) == [one]
    assert one.notes == 1


def request(session_id: int = 0, epoch: int = 0, *, names: bool = True) -> FetchRequest:
    topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])]
    return FetchRequest(max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics if names else [])


@pytest.mark.parametrize(
    ("held_by_follower", "wanted_by_follower", "idle_ms", "is_evicted"),
    [
        pytest.param(False, True, 0, True, id="a-follower-takes-a-consumers"),
        pytest.param(False, False, 120_000, False, id="a-consumers-is-kept-for-two-minutes"),
        pytest.param(False, False, 120_001, True, id="and-no-longer"),
        pytest.param(True, False, 120_001, False, id="a-followers-is-never-a-consumers"),
        pytest.param(True, True, 120_000, False, id="a-followers-is-kept-for-two-minutes"),
        pytest.param(True, True, 120_001, True, id="then-another-follower-takes-it"),
    ],
)
def test_eviction_between_consumers_and_followers(
    held_by_follower: bool, wanted_by_follower: bool, idle_ms: int, is_evicted: bool
) -> None:
    sessions = FetchSessionCache(random=SeededRandom(1), slots_max=1)
    sessions.open_context(request(), uses_topic_ids=False, now_ms=0, is_follower=held_by_follower)
    context = sessions.open_context(request(), uses_topic_ids=False, now_ms=idle_ms, is_follower=wanted_by_follower)

    assert (context.session is not None) is is_evicted
    assert sessions.evictions == int(is_evicted)


def test_session_by_name_continues_with_the_recreated_topic(pair: Any) -> None:
    pair[1].produce(b"old")
    pair.settle()
    (first,) = pair[1].ask(request(), 12)
    pair.controller.delete_topic("t")
    pair.settle()
    (deleted,) = pair[1].ask(request(first.session_id, 1, names=False), 12)
    pair.controller.create_topic("t", (1, 2))
    pair.settle()
    pair.run(RETRY_MS)
    (empty,) = pair[1].ask(request(first.session_id, 2, names=False), 12)
    pair[1].produce(b"new topic")
    pair.settle()
    (changed,) = pair[1].ask(request(first.session_id, 3, names=False), 12)

    assert first.responses[0].partitions[0].high_watermark == 1
    assert ErrorCode(deleted.responses[0].partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (empty.responses[0].partitions[0].error_code, empty.responses[0].partitions[0].high_watermark) == (0, 0)
    assert len(changed.responses[0].partitions[0].records) == len(pair[1].log_bytes())


def test_quiet_session_gets_empty_responses_until_a_change(pair: Any) -> None:
    (first,) = pair[1].ask(request(), 12)
    (quiet,) = pair[1].ask(request(first.session_id, 1, names=False), 12)
    pair[1].produce(b"a")
    pair.settle()
    (changed,) = pair[1].ask(request(first.session_id, 2, names=False), 12)
    (again,) = pair[1].ask(request(first.session_id, 3, names=False), 12)

    assert quiet.responses == []
    assert len(changed.responses[0].partitions[0].records) > 0
    assert len(again.responses[0].partitions[0].records) > 0


def test_session_of_an_unknown_topic_id_is_notified_after_its_creation(new_cluster: Any) -> None:
    cluster = new_cluster(2)
    cluster.settle()
    topic_id = cluster.controller.create_topic("t", (1, 2))
    by_id = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    (unknown,) = cluster[1].ask(FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=[by_id]), 13)
    cluster.settle()
    cluster.run(RETRY_MS)
    (known,) = cluster[1].ask(request(unknown.session_id, 1, names=False), 13)
    cluster[1].produce(b"a", acks=1)
    cluster.run(600)
    (changed,) = cluster[1].ask(request(unknown.session_id, 2, names=False), 13)

    assert ErrorCode(unknown.responses[0].partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID
    assert known.responses[0].partitions[0].error_code == 0
    assert len(changed.responses[0].partitions[0].records) > 0


@pytest.mark.parametrize("version", [12, 13], ids=["by-name", "by-id"])
def test_missing_partitions_leave_no_watchers(pair: Any, version: int) -> None:
    watched_before = len(pair[1].replicas.watchers)
    topic_id = pair[1].cache.topic_id("t") if version == 13 else ZERO_UUID
    topics = [FetchTopic(topic="t", topic_id=topic_id, partitions=[FetchPartition(partition=i) for i in range(7, 99)])]
    if version == 12:
        topics += [FetchTopic(topic=f"invented{i}", partitions=[FetchPartition(partition=0)]) for i in range(9)]
    (response,) = pair[1].ask(FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=topics), version)
    pair[1].ask(FetchRequest(session_id=response.session_id, session_epoch=-1), version)

    assert response.session_id
    assert {ErrorCode(partition.error_code) for topic in response.responses for partition in topic.partitions} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert len(pair[1].replicas.watchers) == watched_before


def test_session_by_name_is_notified_after_its_topic_is_created(new_cluster: Any) -> None:
    cluster = new_cluster(2)
    cluster.settle()
    (unknown,) = cluster[1].ask(request(), 12)
    cluster.controller.create_topic("t", (1, 2))
    cluster.settle()
    cluster.run(RETRY_MS)
    (known,) = cluster[1].ask(request(unknown.session_id, 1, names=False), 12)
    (quiet,) = cluster[1].ask(request(unknown.session_id, 2, names=False), 12)
    cluster[1].produce(b"a", acks=1)
    cluster.run(600)
    (changed,) = cluster[1].ask(request(unknown.session_id, 3, names=False), 12)

    assert ErrorCode(unknown.responses[0].partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known.responses[0].partitions[0].error_code == 0
    assert quiet.responses == []
    assert len(changed.responses[0].partitions[0].records) > 0


def test_unwatched_partition_is_removed_with_its_next_change() -> None:
    watchers, one = PartitionWatchers(), session()
    watchers.watch(T0, one, KEY, one.partitions[KEY])
    one.is_open = False
    watchers.note_change(T0)

    assert len(watchers) == 0

"""Changes of thousands of partitions cause one check of each waiting fetch, and fetches of bounded size."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.replication import replica_fetcher
from ottla.replication.fetch.fetch_round import FetchRound
from ottla.replication.sessions.fetch_session import FetchedPartition, FetchSession
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire.messages.fetch import FetchRequest

COUNT = 50


def watch(broker: Any, *, is_followers: bool) -> list[int]:
    """Let a fetch wait on all partitions; return the list of how many had changed at each of its checks."""
    keys = [("t", ZERO_UUID, index) for index in range(COUNT)]
    partitions = {key: FetchedPartition(fetch_offset=0) for key in keys}
    session = FetchSession(99, 1, False, partitions, 0, 0, is_followers=is_followers)
    for key in keys:
        broker.replicas.watchers.watch(TopicPartition("t", key[2]), session, key, partitions[key])
    lookups: list[int] = []
    broker.replicas.fetch_purgatory.watch(
        [session.session_id],
        deadline_ms=1 << 60,
        try_complete=lambda: lookups.append(len(session.pending)),
        on_deadline=lambda: None,
    )
    lookups.clear()
    return lookups


@pytest.mark.parametrize("is_followers", [True, False], ids=["a-followers", "a-consumers"])
@pytest.mark.parametrize("node_id", [1, 2], ids=["the-old-leader", "the-new-leader"])
def test_waiting_fetch_is_checked_once_when_all_its_partitions_change_leader(
    new_cluster: Any, node_id: int, is_followers: bool
) -> None:
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", *[(1, 2)] * COUNT)
    cluster.settle()
    cluster.run(1_000)
    lookups = watch(cluster[node_id], is_followers=is_followers)
    for index in range(COUNT):
        cluster.controller.change(index, leader=2)
    cluster[node_id].learn()

    assert lookups == [COUNT]


def test_waiting_fetch_is_checked_once_when_all_its_partitions_are_deleted(new_cluster: Any) -> None:
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", *[(1, 2)] * COUNT)
    cluster.settle()
    cluster.run(1_000)
    lookups = watch(cluster[1], is_followers=False)
    cluster.controller.delete_topic("t")
    cluster[1].learn()

    assert lookups == [COUNT]


def test_waiting_fetch_is_checked_once_when_many_in_sync_sets_grow(new_cluster: Any) -> None:
    cluster = new_cluster(2, config=LogConfig(min_insync_replicas=2))
    cluster.controller.create_topic("t", *[(1, 2)] * COUNT, isr=(1,))
    cluster.learn()
    for broker in cluster.up():
        for index in range(COUNT):
            broker.partition(index)
    lookups = watch(cluster[1], is_followers=False)
    cluster.run(1_000)

    topic = cluster.controller.image.topics.by_name["t"]
    assert [partition.isr for partition in topic.partitions.values()] == [(1, 2)] * COUNT
    assert 0 < len(lookups) < COUNT // 5


def test_fetches_check_only_changed_partitions(new_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", *[(1, 2)] * COUNT)
    cluster.run(2_000)
    lookups_seen: list[int] = []
    find = FetchRound._partition_of

    def noted(round_: Any, key: Any, fetched: Any) -> Any:
        lookups_seen.append(key[2])
        return find(round_, key, fetched)

    monkeypatch.setattr(FetchRound, "_partition_of", noted)
    cluster.run(2_000)
    quiet = list(lookups_seen)
    cluster[1].produce(b"a", index=7)
    cluster.run(2_000)

    assert quiet == []
    assert set(lookups_seen) == {7}


@pytest.mark.parametrize("has_sessions", [True, False], ids=["sessions", "no-sessions"])
def test_many_partitions_are_named_by_several_fetches_unless_each_has_to_name_all(
    new_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, has_sessions: bool
) -> None:
    monkeypatch.setattr(replica_fetcher, "NAMED_MAX", 4)
    cluster = new_cluster(2)
    if not has_sessions:
        cluster[1].services.fetch_sessions = FetchSessionCache(random=cluster.random, slots_max=0)
    cluster.controller.create_topic("t", *[(1, 2)] * 10)
    cluster.run(1_100)
    fetches = [each for each in cluster[2].sent if isinstance(each, FetchRequest) and each.topics]
    named = [[partition.partition for topic in each.topics for partition in topic.partitions] for each in fetches]
    for index in range(10):
        cluster[1].produce(b"%d" % index, index=index)
    cluster.run(1_100)

    assert [cluster[2].values(index) for index in range(10)] == [[b"%d" % index] for index in range(10)]
    assert all(
        partition.isr == (1, 2) for partition in cluster.controller.image.topics.by_name["t"].partitions.values()
    )
    if has_sessions:
        assert sorted(map(len, named))[-3:] == [2, 4, 4]
        assert [each.max_wait_ms for each in fetches if len(each.topics[0].partitions) == 4] == [0, 0]
        assert sorted(index for each in named for index in each) == list(range(10))
    else:
        assert [len(each) for each in named] == [4] + [10] * (len(named) - 1)

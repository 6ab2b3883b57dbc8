"""Changes of thousands of partitions cause one check of each waiting fetch."""

from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.replication.fetch.fetch_round import FetchRound
from ottla.replication.sessions.fetch_session import FetchedPartition, FetchSession
from ottla.types import ZERO_UUID, TopicPartition

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

"""Encoded partitions are cached while topic and brokers are unchanged; fenced brokers stay listed for a while."""

from collections.abc import Callable

import pytest

from ottla.metadata import cache as cache_module
from ottla.metadata.cache import MetadataCache
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord
from ottla.raft.records import Batch
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Uuid
from ottla.wire.codec import EncodedArray, Message
from ottla.wire.messages import metadata_log as log

TOPIC_ID = Uuid(bytes(15) + b"\x0a")
OTHER_ID = Uuid(bytes(15) + b"\x0b")
BEGINNING = [
    log.RegisterBrokerRecord(broker_id=1, broker_epoch=0),
    log.UnfenceBrokerRecord(id=1, epoch=0),
    log.TopicRecord(name="t", topic_id=TOPIC_ID),
    log.PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1], isr=[1], leader=1),
    log.TopicRecord(name="other", topic_id=OTHER_ID),
    log.PartitionRecord(topic_id=OTHER_ID, partition_id=0, replicas=[1], isr=[1], leader=1),
]


class Cluster:
    """A cache that follows records, and counts how often the topic ``t`` was encoded."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.cache = MetadataCache(self.clock)
        self.times_encoded = 0
        self._loader = MetadataLoader()
        self._loader.add_publisher(self.cache)
        self.commit(*BEGINNING)

    def commit(self, *messages: Message) -> None:
        offset = self._loader.applied_offset + 1
        records = tuple(MetadataRecord(message, 0) for message in messages)
        self._loader.on_committed([Batch(offset, 1, 0, 72, records, offset + len(messages) - 1)])

    def ask(self, view: object = 12, *, name: str = "t", size_bytes: int = 10) -> bytes:
        def encode() -> EncodedArray:
            self.times_encoded += 1
            return EncodedArray(12, bytes([self.times_encoded]) * size_bytes)

        topic = self.cache.topic(name)
        assert topic is not None
        encoded = self.cache.encoded_partitions(topic, view)
        if encoded is None:
            encoded = encode()
            self.cache.keep_encoded_partitions(topic, view, encoded)
        return encoded.data


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def leader_moves(topic_id: Uuid) -> log.PartitionChangeRecord:
    return log.PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1)


def partition_is_added(topic_id: Uuid) -> log.PartitionRecord:
    return log.PartitionRecord(topic_id=topic_id, partition_id=1, replicas=[1], isr=[1], leader=1)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(log.NoOpRecord(), id="nothing-at-all"),
        pytest.param(log.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"), id="config"),
        pytest.param(leader_moves(OTHER_ID), id="another-topic-changes"),
        pytest.param(log.RemoveTopicRecord(topic_id=OTHER_ID), id="another-topic-is-removed"),
    ],
)
def test_encoded_partitions_are_kept_across_unrelated_changes(cluster: Cluster, record: Message) -> None:
    before = cluster.ask()
    cluster.commit(record)

    assert cluster.ask() == before
    assert cluster.times_encoded == 1


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(leader_moves(TOPIC_ID), id="leader-moves"),
        pytest.param(partition_is_added(TOPIC_ID), id="partition-is-added"),
        pytest.param(log.FenceBrokerRecord(id=1, epoch=0), id="broker-is-fenced"),
        pytest.param(log.RegisterBrokerRecord(broker_id=2, broker_epoch=9), id="broker-is-registered"),
    ],
)
def test_partitions_are_encoded_again_when_topic_or_brokers_change(cluster: Cluster, record: Message) -> None:
    before = cluster.ask()
    cluster.commit(record)

    assert cluster.ask() != before
    assert cluster.times_encoded == 2


def test_views_are_cached_separately(cluster: Cluster) -> None:
    first, second = cluster.ask((9, 1)), cluster.ask((12, 1))

    assert first != second
    assert (cluster.ask((9, 1)), cluster.ask((12, 1))) == (first, second)


def test_topic_created_again_with_its_name_is_encoded_again(cluster: Cluster) -> None:
    before = cluster.ask()
    again = Uuid(bytes(15) + b"\x0c")
    cluster.commit(log.RemoveTopicRecord(topic_id=TOPIC_ID), log.TopicRecord(name="t", topic_id=again))

    assert cluster.ask() != before


@pytest.mark.parametrize(
    ("change", "times"),
    [
        pytest.param(lambda cluster: None, 2, id="both-fit"),
        pytest.param(lambda cluster: cluster.ask(name="other", size_bytes=11), 4, id="one-byte-too-many"),
    ],
)
def test_cache_of_encoded_partitions_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, change: Callable[[Cluster], None], times: int
) -> None:
    monkeypatch.setattr(cache_module, "_ENCODED_BYTES_MAX", 30)
    cluster.ask(size_bytes=20)
    cluster.ask((9, 1), size_bytes=10)
    change(cluster)
    cluster.ask(size_bytes=20)

    assert cluster.times_encoded == times


def test_deleted_topic_frees_its_cache_space(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_ENCODED_BYTES_MAX", 30)
    cluster.ask(name="other", size_bytes=20)
    cluster.commit(log.RemoveTopicRecord(topic_id=OTHER_ID))
    cluster.ask((9, 1), size_bytes=15)
    cluster.ask(size_bytes=15)
    cluster.ask((9, 1), size_bytes=15)

    assert cluster.times_encoded == 3


def lately_fenced(cluster: Cluster) -> list[int]:
    return [broker.broker_id for broker in cluster.cache.lately_fenced_brokers()]


@pytest.mark.parametrize(
    ("after_ms", "listed"), [pytest.param(8_999, [1], id="for-nine-seconds"), pytest.param(9_000, [], id="no-longer")]
)
def test_fenced_broker_stays_listed_for_the_session_timeout(cluster: Cluster, after_ms: int, listed: list[int]) -> None:
    assert lately_fenced(cluster) == []
    cluster.commit(log.FenceBrokerRecord(id=1, epoch=0))
    cluster.clock.advance(after_ms)
    cluster.commit(log.NoOpRecord(), log.TopicRecord(name="more", topic_id=Uuid(bytes(15) + b"\x0c")))

    assert lately_fenced(cluster) == listed
    assert cluster.cache.alive_brokers() == []


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(log.UnfenceBrokerRecord(id=1, epoch=0), id="it-is-unfenced"),
        pytest.param(log.RegisterBrokerRecord(broker_id=1, broker_epoch=7), id="its-next-process-registers"),
        pytest.param(log.UnregisterBrokerRecord(broker_id=1, broker_epoch=0), id="it-is-unregistered"),
    ],
)
def test_only_the_fenced_process_itself_stays_listed(cluster: Cluster, record: Message) -> None:
    cluster.commit(log.FenceBrokerRecord(id=1, epoch=0))
    cluster.commit(record)

    assert lately_fenced(cluster) == []


def test_broker_that_was_never_unfenced_is_not_listed(cluster: Cluster) -> None:
    cluster.commit(log.RegisterBrokerRecord(broker_id=2, broker_epoch=8))
    cluster.commit(log.FenceBrokerRecord(id=2, epoch=8))

    assert lately_fenced(cluster) == []

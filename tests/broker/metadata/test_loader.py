"""Images are published in order, once per committed step, and never halfway through a transaction."""

from typing import Any

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord
from ottla.raft.records import Batch
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages import metadata_log as log


class Publisher:
    def __init__(self) -> None:
        self.published: list[tuple[MetadataDelta, MetadataImage]] = []

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.published.append((delta, image))

    @property
    def levels(self) -> list[dict[str, int]]:
        return [dict(image.features.levels) for _, image in self.published]


def batch(offset: int, *messages: Message) -> Batch[MetadataRecord]:
    records = tuple(MetadataRecord(message, 0) for message in messages)
    return Batch(offset, 1, 1_000 + offset, 72, records, offset + len(messages) - 1)


def level(name: str, value: int = 1) -> log.FeatureLevelRecord:
    return log.FeatureLevelRecord(name=name, feature_level=value)


@pytest.fixture
def publisher() -> Publisher:
    return Publisher()


@pytest.fixture
def loader(publisher: Publisher) -> MetadataLoader:
    loader = MetadataLoader()
    loader.add_publisher(publisher)
    return loader


def test_each_commit_is_published_once_with_its_provenance(loader: MetadataLoader, publisher: Publisher) -> None:
    loader.on_committed([batch(0, level("a")), batch(1, level("b"))])
    loader.on_committed([batch(2, level("a", 2))])

    assert publisher.levels == [{"a": 1, "b": 1}, {"a": 2, "b": 1}]
    assert loader.image.provenance == (2, 1, 1_002)
    assert [delta.image for delta, _ in publisher.published] == [EMPTY_IMAGE, publisher.published[0][1]]


def test_metadata_transaction_is_published_at_its_end(loader: MetadataLoader, publisher: Publisher) -> None:
    loader.on_committed([batch(0, level("a"), log.BeginTransactionRecord(), level("b"))])
    assert publisher.published == []

    loader.on_committed([batch(3, level("c"), log.EndTransactionRecord())])

    assert publisher.levels == [{"a": 1, "b": 1, "c": 1}]


def test_aborted_transaction_changes_nothing(loader: MetadataLoader, publisher: Publisher) -> None:
    loader.on_committed([batch(0, log.BeginTransactionRecord(), level("b"))])
    loader.on_committed([batch(2, log.AbortTransactionRecord(), level("a"))])

    assert publisher.levels == [{"a": 1}]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param((log.EndTransactionRecord(),), id="end-without-begin"),
        pytest.param((log.AbortTransactionRecord(),), id="abort-without-begin"),
        pytest.param((log.BeginTransactionRecord(), log.BeginTransactionRecord()), id="begin-twice"),
        pytest.param((log.PartitionRecord(),), id="partition-of-no-topic"),
        pytest.param((log.FenceBrokerRecord(id=1),), id="fence-of-no-broker"),
    ],
)
def test_contradicting_records_are_rejected(loader: MetadataLoader, messages: tuple[Message, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the records differ in what is wrong with them
        loader.on_committed([batch(0, *messages)])


def test_late_publisher_gets_the_whole_image_at_once(loader: MetadataLoader) -> None:
    loader.on_committed([batch(0, level("a"), log.TopicRecord(name="t", topic_id=Uuid(b"t" * 16)))])
    late = Publisher()

    loader.add_publisher(late)

    assert [image for _, image in late.published] == [loader.image]
    assert late.published[0][0].features.changes == {"a": 1}
    assert list(late.published[0][0].topics.changed_topics) == [Uuid(b"t" * 16)]


def test_late_publisher_gets_the_delta_of_the_image_s_records(loader: MetadataLoader) -> None:
    topics = [log.TopicRecord(name=name, topic_id=Uuid(name.encode() * 16)) for name in ("u", "t")]
    partitions = [
        log.PartitionRecord(
            partition_id=number, topic_id=topic.topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=0
        )
        for topic in topics
        for number in (1, 0)
    ]
    config = log.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    loader.on_committed([batch(0, level("a"), *topics, *partitions, config, log.ProducerIdsRecord(next_producer_id=9))])
    replayed = MetadataDelta(EMPTY_IMAGE)
    for record in loader.image.records():
        replayed.replay(record.message)
    late = Publisher()

    loader.add_publisher(late)

    delta = late.published[0][0]
    assert delta.image is EMPTY_IMAGE
    assert delta.apply(loader.image.provenance) == replayed.apply(loader.image.provenance) == loader.image
    assert delta.topics.local_changes(1) == replayed.topics.local_changes(1)
    assert list(delta.topics.local_changes(1).leaders) == list(replayed.topics.local_changes(1).leaders)


def test_snapshot_removes_what_it_does_not_name(loader: MetadataLoader, publisher: Publisher) -> None:
    loader.on_committed([batch(0, level("a"), log.TopicRecord(name="t", topic_id=Uuid(b"t" * 16)))])

    class Reader:
        last_contained_offset, epoch, last_contained_log_time_ms = 9, 2, 3

        def batches(self) -> Any:
            yield batch(0, level("b"))

    reader: Any = Reader()
    loader.on_snapshot(reader)

    delta, image = publisher.published[-1]
    assert dict(image.features.levels) == {"b": 1}
    assert image.topics.by_name == {}
    assert list(delta.topics.deleted_topics) == [Uuid(b"t" * 16)]
    assert loader.applied_offset == 9

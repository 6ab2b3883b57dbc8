"""`CoordinatorPublisher`: metadata changes of the internal topic, and of no other, reach the coordinator."""

from typing import Any

import pytest

from ottla.coordinator.publisher import CoordinatorPublisher
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.metadata_log import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NODE_ID, OTHER_ID, LEADERLESS = 1, 2, -1
TOPIC = "__counters"
TOPIC_ID, OTHER_TOPIC_ID = Uuid(b"c" * 16), Uuid(b"o" * 16)


class StubLog:
    """The internal topic on a disk that fails for ``failed_partitions``."""

    topic_name = TOPIC

    def __init__(self) -> None:
        self.failed_partitions: set[int] = set()

    def read_at_election(self, partition: int) -> Any:
        return None if partition in self.failed_partitions else iter([f"batches of {partition}"])


class Recorder:
    """A coordinator that keeps what it is notified of."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_elected(self, partition: int, leader_epoch: int, batches: Any) -> None:
        self.events.append(("elected", partition, leader_epoch, *batches))

    def on_resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        self.events.append(("resigned", partition, leader_epoch))

    def on_metadata_update(self, delta: Any) -> None:
        deleted = [topic.name for topic in delta.topics.deleted_topics.values()]
        if deleted:
            self.events.append(("deleted", *deleted))


class Published:
    """A publisher and the image that it has seen."""

    def __init__(self) -> None:
        self.log: Any = StubLog()
        self.coordinator = Recorder()
        self.publisher = CoordinatorPublisher(node_id=NODE_ID, log=self.log, coordinator=self.coordinator)
        self.image: MetadataImage = EMPTY_IMAGE

    def publish(self, *records: Any) -> list[tuple[Any, ...]]:
        """Publish the records as one image; return what the coordinator was notified of."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(Provenance(0, 0, 0))
        self.publisher.publish(delta, self.image)
        events, self.coordinator.events = self.coordinator.events, []
        return events


def partition(number: int, leader: int, *, topic_id: Uuid = TOPIC_ID) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=[NODE_ID, OTHER_ID],
        isr=[NODE_ID, OTHER_ID],
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=[ZERO_UUID, ZERO_UUID],
    )


@pytest.fixture
def published() -> Published:
    """This node leads partition 0 of the internal topic and of another one; the other node leads partition 1."""
    published = Published()
    events = published.publish(
        TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
        partition(0, NODE_ID),
        partition(1, OTHER_ID),
        TopicRecord(name="other", topic_id=OTHER_TOPIC_ID),
        partition(0, NODE_ID, topic_id=OTHER_TOPIC_ID),
    )
    assert events == [("resigned", 1, 0), ("elected", 0, 0, "batches of 0")]
    return published


@pytest.mark.parametrize("leader", [OTHER_ID, LEADERLESS])
def test_new_leader_makes_this_node_resign_in_the_new_epoch(published: Published, leader: int) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader)

    assert published.publish(change) == [("resigned", 0, 1)]


def test_election_has_the_new_leader_epoch_and_what_is_in_the_log(published: Published) -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=NODE_ID)

    assert published.publish(change) == [("elected", 1, 1, "batches of 1")]


def test_change_of_the_isr_is_no_election(published: Published) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[NODE_ID])

    assert published.publish(change) == []


def test_partition_on_a_failed_disk_is_not_served(published: Published) -> None:
    published.log.failed_partitions = {1}
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=NODE_ID)

    assert published.publish(change) == []


def test_replica_that_is_moved_away_resigns_in_any_epoch(published: Published) -> None:
    change = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, leader=OTHER_ID, replicas=[OTHER_ID], isr=[OTHER_ID]
    )

    assert published.publish(change) == [("resigned", 0, None)]


def test_deleted_topics_are_reported_by_name(published: Published) -> None:
    assert published.publish(RemoveTopicRecord(topic_id=OTHER_TOPIC_ID)) == [("deleted", "other")]


def test_deleted_internal_topic_is_resigned_from(published: Published) -> None:
    events = published.publish(RemoveTopicRecord(topic_id=TOPIC_ID))

    assert events == [("resigned", 0, None), ("resigned", 1, None), ("deleted", TOPIC)]


def test_leadership_of_other_topics_is_not_reported(published: Published) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=OTHER_TOPIC_ID, leader=OTHER_ID)

    assert published.publish(change) == []

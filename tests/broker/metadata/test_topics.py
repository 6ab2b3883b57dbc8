"""Topic changes as one broker sees them, and that images share unchanged parts."""

from typing import Any

import pytest

from ottla.metadata.topics import PartitionRegistration, TopicsDelta, TopicsImage
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.metadata_log import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def created(*topics: tuple[Uuid, str, int], image: TopicsImage | None = None) -> TopicsDelta:
    delta = TopicsDelta(image or TopicsImage())
    for topic_id, name, leader in topics:
        delta.replay_topic(TopicRecord(name=name, topic_id=topic_id))
        record = PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=[1, 2],
            isr=[1, 2],
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            directories=[ZERO_UUID, ZERO_UUID],
        )
        delta.replay_partition(record)
    return delta


def changed(image: TopicsImage, **fields: Any) -> TopicsDelta:
    delta = TopicsDelta(image)
    delta.replay_partition_change(PartitionChangeRecord(partition_id=0, topic_id=T, **fields))
    return delta


def test_new_topic_is_led_by_one_broker_and_followed_by_the_other() -> None:
    delta = created((T, "t", 1))

    leading, following, neither = (delta.local_changes(broker) for broker in (1, 2, 3))

    assert list(leading.leaders) == list(leading.elected_leaders) == [TopicPartition("t", 0)]
    assert list(following.followers) == [TopicPartition("t", 0)]
    assert not neither.leaders
    assert not neither.followers


def test_local_changes_can_be_limited_to_one_topic() -> None:
    image = created((T, "t", 1), (U, "u", 1)).apply()
    deleted = TopicsDelta(image)
    for topic_id in (T, U):
        deleted.replay_remove_topic(RemoveTopicRecord(topic_id=topic_id))

    created_again = created((T, "t", 1), (U, "u", 1))
    assert list(created_again.local_changes(1, topic_name="u").leaders) == [TopicPartition("u", 0)]
    assert list(deleted.local_changes(1, topic_name="u").deletes) == [TopicPartition("u", 0)]


@pytest.mark.parametrize(
    ("fields", "elected", "led"),
    [
        pytest.param({"leader": 1}, True, True, id="new-epoch-of-the-same-leader"),
        pytest.param({"isr": [1]}, False, True, id="in-sync-set-only"),
        pytest.param({"leader": 2}, False, False, id="another-leader"),
        pytest.param({"leader": -1, "isr": []}, False, False, id="no-leader"),
    ],
)
def test_only_a_new_leader_epoch_is_an_election(fields: dict[str, Any], elected: bool, led: bool) -> None:
    changes = changed(created((T, "t", 1)).apply(), **fields).local_changes(1)

    assert bool(changes.elected_leaders) == elected
    assert bool(changes.leaders) == led
    assert bool(changes.followers) == (not led)


def test_reassigned_replica_is_deleted_locally() -> None:
    delta = changed(created((T, "t", 1)).apply(), replicas=[2, 3], isr=[2], leader=2)

    assert delta.local_changes(1).deletes == {TopicPartition("t", 0): T}
    assert list(delta.local_changes(3).followers) == [TopicPartition("t", 0)]


def test_deleted_topic_is_deleted_on_its_replicas_brokers() -> None:
    delta = TopicsDelta(created((T, "t", 1)).apply())
    delta.replay_remove_topic(RemoveTopicRecord(topic_id=T))

    assert delta.local_changes(2).deletes == {TopicPartition("t", 0): T}
    assert delta.local_changes(3).deletes == {}
    assert delta.apply() == TopicsImage()


def test_topic_created_again_with_its_name_has_another_id() -> None:
    image = created((T, "t", 1)).apply()
    delta = TopicsDelta(image)
    delta.replay_remove_topic(RemoveTopicRecord(topic_id=T))
    again = created((U, "t", 2), image=image)
    delta.changed_topics |= again.changed_topics

    after = delta.apply()

    assert after.by_name["t"].topic_id == U
    assert list(after.by_id) == [U]


def test_topic_created_and_deleted_in_one_delta_leaves_no_change() -> None:
    delta = created((T, "t", 1))
    delta.replay_remove_topic(RemoveTopicRecord(topic_id=T))

    assert delta.apply() == TopicsImage()
    assert delta.local_changes(1).deletes == {}


def test_images_share_what_did_not_change() -> None:
    before = created((T, "t", 1), (U, "u", 1)).apply()

    after = changed(before, isr=[1]).apply()

    assert after.by_name["u"] is before.by_name["u"]
    assert before.by_name["t"].partitions[0].isr == (1, 2)
    assert after.by_name["t"].partitions[0].isr == (1,)


def test_change_bumps_the_partition_epoch_and_an_election_the_leader_epoch() -> None:
    image = created((T, "t", 1)).apply()

    shrunk = changed(image, isr=[1]).apply().by_id[T].partitions[0]
    elected = changed(image, leader=2).apply().by_id[T].partitions[0]

    assert (shrunk.leader_epoch, shrunk.partition_epoch) == (0, 1)
    assert (elected.leader_epoch, elected.partition_epoch) == (1, 1)


@pytest.mark.parametrize("topic", ["t", ""], ids=["one-topic", "every-topic"])
def test_eligible_leaders_are_cleared(topic: str) -> None:
    image = changed(created((T, "t", 1)).apply(), eligible_leader_replicas=[2], last_known_elr=[1]).apply()
    delta = TopicsDelta(image)

    delta.replay_clear_elr(ClearElrRecord(topic_name=topic))

    partition = delta.apply().by_id[T].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((), ())


def test_registration_round_trips_through_its_record() -> None:
    from ottla.metadata.metadata_version import record_versions

    registration = PartitionRegistration((1, 2), (1,), 1, 3, 4, (T, U), (2,), (1,), (2,), (1,), 1)

    record = registration.to_record(T, 0, record_versions(30)).message

    assert isinstance(record, PartitionRecord)
    assert PartitionRegistration.from_record(record) == registration

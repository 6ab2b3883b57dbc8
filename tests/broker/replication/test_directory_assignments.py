"""Log directories: those that differ from the metadata are reported, and a failed one stops its replicas."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.cluster import DIRECTORY_UNASSIGNED
from ottla.types import TopicPartition, Uuid


def test_directory_that_differs_from_the_metadata_is_reported(pair: Any) -> None:
    pair.controller.create_topic("u", (1, 2))
    pair.controller.change(topic="u", directories=[Uuid(b"x" * 16), Uuid(b"d" * 16)])
    pair.settle()
    (request,) = pair.controller.assigned_directories

    assert request.broker_id == 1
    assert [directory.id for directory in request.directories] == [Uuid(b"d" * 16)]


def test_unreported_directory_is_reported_also_after_it_failed(pair: Any) -> None:
    """Else a leader in it stays leader: the controller does not know which replicas failed with the directory."""
    pair.controller.create_topic("u", (1, 2))
    pair.controller.change(topic="u", directories=[DIRECTORY_UNASSIGNED, Uuid(b"d" * 16)])
    pair[1].learn()
    assert not pair.controller.assigned_directories

    pair[1].replicas.metadata_publisher.on_directory_failure([TopicPartition("u", 0)])
    pair.settle()

    (request,) = pair.controller.assigned_directories
    assert [directory.id for directory in request.directories] == [Uuid(b"d" * 16)]


def test_partitions_of_a_failed_directory_are_neither_led_nor_followed(pair: Any) -> None:
    waiting = pair[1].produce(b"a")
    pair[1].replicas.metadata_publisher.on_directory_failure([TopicPartition("t", 0)])
    pair.settle()

    assert ErrorCode(waiting[0].error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode(pair[1].produce(b"b")[0].error_code) is ErrorCode.KAFKA_STORAGE_ERROR

"""Topics are created, get more partitions and are deleted, or are rejected with Kafka's messages (of 4.3.1)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.records import MetadataRecord
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages import metadata_log as log
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

UNKNOWN_ID = Uuid(bytes(15) + b"\x09")


def topic(name: str = "new", partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def assigned(*assignments: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    created = topic(partitions=partitions, replicas=replicas)
    created.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments
    ]
    return created


REJECTED = [
    (
        topic(replicas=3),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
    ),
    (
        topic(partitions=0),
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (
        topic(partitions=-2),
        ErrorCode.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (
        topic(replicas=0),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        topic(partitions=0, replicas=-2),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (topic("t"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
    (
        topic(""),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: the empty string is not allowed",
    ),
    (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
    (
        topic("a b"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    ),
    (
        topic("x" * 250),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
    ),
    (
        topic("__cluster_metadata"),
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (
        topic("u.1.x"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'u.1.x' collides with existing topic: u_1.x",
    ),
    (topic(nope="1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
    (
        topic(retention_ms="abc"),
        ErrorCode.INVALID_CONFIG,
        "Invalid value abc for configuration retention.ms: Not a number of type LONG",
    ),
    (
        topic(retention_ms=None),
        ErrorCode.INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms",
    ),
    (
        assigned((0, [1]), partitions=3),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        assigned((0, [1]), replicas=2),
        ErrorCode.INVALID_REQUEST,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        assigned((0, [1, 1])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        assigned((0, [2])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 2, but no such broker is registered.",
    ),
    (
        assigned((0, [])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        assigned((1, [1])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        assigned((0, [1]), (0, [1])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    ),
]


@pytest.mark.parametrize(("wanted", "code", "message"), REJECTED, ids=lambda value: getattr(value, "name", None))
def test_invalid_topic_is_rejected_as_by_kafka(
    node: Any, wanted: CreatableTopic, code: ErrorCode, message: str
) -> None:
    node.create_topic("t")
    node.create_topic("u_1.x")
    before = node.image

    response = node.ask(CreateTopicsRequest(topics=[wanted]))

    assert [(each.error_code, each.error_message) for each in response.topics] == [(code, message)]
    assert node.image.topics == before.topics


def test_topic_named_twice_is_rejected_once(node: Any) -> None:
    response = node.ask(CreateTopicsRequest(topics=[topic("a"), topic("a"), topic("b")]))

    assert [(each.name, each.error_code, each.error_message) for each in response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("b", ErrorCode.NONE, None),
    ]


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        pytest.param(10_001, "Excessively large number of partitions per request.", id="partitions"),
        pytest.param(10_000, "Unable to perform excessively large batch operation.", id="records"),
    ],
)
def test_request_too_large_for_one_batch_is_rejected(node: Any, partitions: int, message: str) -> None:
    response = node.ask(CreateTopicsRequest(topics=[topic(partitions=partitions)]))

    assert (response.topics[0].error_code, response.topics[0].error_message) == (ErrorCode.POLICY_VIOLATION, message)


def test_records_of_a_topic_equal_kafka_s(node: Any) -> None:
    records = node.records_of(CreateTopicsRequest(topics=[topic(partitions=2, retention_ms="1000")]))

    topic_id = node.image.topics.by_name["new"].topic_id
    partitions = [
        MetadataRecord(
            log.PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[Uuid(bytes([101]) * 16)],
            ),
            2,
        )
        for number in range(2)
    ]
    assert records == [
        MetadataRecord(log.TopicRecord(name="new", topic_id=topic_id), 0),
        MetadataRecord(log.ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="1000"), 0),
        *partitions,
    ]


def test_minus_one_selects_the_defaults(new_controller: Callable[..., Any]) -> None:
    node = new_controller(default_replication_factor=2)
    node.add_brokers(1, 2)

    response = node.create_topic("t", -1, -1)

    assert (response.num_partitions, response.replication_factor) == (1, 2)


def test_response_has_the_new_topic_s_settings(node: Any) -> None:
    response = node.create_topic("t", retention_ms="77")

    settings = {each.name: (each.value, each.config_source) for each in response.configs}
    assert len(settings) == 33
    assert settings["retention.ms"] == ("77", 1)
    assert settings["min.insync.replicas"] == ("1", 3)
    assert settings["segment.bytes"] == ("1073741824", 5)


def test_validate_only_responds_and_changes_nothing(node: Any) -> None:
    records = node.records_of(CreateTopicsRequest(topics=[topic()], validate_only=True))

    assert records == []
    assert node.ask(CreateTopicsRequest(topics=[topic()], validate_only=True)).topics[0].error_code == ErrorCode.NONE


def test_response_waits_until_the_records_are_on_disk(node: Any) -> None:
    response = node.channel.send(CreateTopicsRequest(topics=[topic()]))
    repeated = node.channel.send(CreateTopicsRequest(topics=[topic()]))

    assert not response.is_complete
    assert not repeated.is_complete, "its decision was based on uncommitted records"
    assert "new" not in node.image.topics.by_name
    node.commit()
    assert response.value.topics[0].error_code == ErrorCode.NONE
    assert repeated.value.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "new" in node.image.topics.by_name


def larger(name: str, count: int, *assignments: list[int]) -> CreatePartitionsRequest:
    created = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=created if assignments else None)]
    )


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        pytest.param(
            larger("t", 2),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 4 partition(s); 2 would not be an increase.",
            id="fewer",
        ),
        pytest.param(
            larger("t", 4), ErrorCode.INVALID_PARTITIONS, "Topic already has 4 partition(s).", id="the-same-number"
        ),
        pytest.param(larger("nope", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, id="unknown-topic"),
        pytest.param(
            larger("t", 5, [1], [1]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
            id="too-many-assignments",
        ),
        pytest.param(
            larger("t", 5, [7]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
            id="unknown-broker",
        ),
        pytest.param(
            larger("t", 20_000),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
            id="too-many",
        ),
    ],
)
def test_invalid_added_partitions_are_rejected_as_by_kafka(
    node: Any, request_: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> None:
    node.create_topic("t", 4)

    response = node.ask(request_)

    assert [(each.error_code, each.error_message) for each in response.results] == [(code, message)]
    assert len(node.image.topics.by_name["t"].partitions) == 4


def test_added_partitions_follow_the_present_ones(node: Any) -> None:
    node.create_topic("t", 4)

    assert node.ask(larger("t", 6)).results[0].error_code == ErrorCode.NONE
    assert sorted(node.image.topics.by_name["t"].partitions) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("state", "code", "message"),
    [
        pytest.param(
            DeleteTopicState(name="nope"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
            id="unknown-name",
        ),
        pytest.param(
            DeleteTopicState(name=None, topic_id=UNKNOWN_ID),
            ErrorCode.UNKNOWN_TOPIC_ID,
            "This server does not host this topic ID.",
            id="unknown-id",
        ),
        pytest.param(
            DeleteTopicState(name=None, topic_id=ZERO_UUID),
            ErrorCode.INVALID_REQUEST,
            "Neither topic name nor id were specified.",
            id="neither",
        ),
        pytest.param(
            DeleteTopicState(name="t", topic_id=UNKNOWN_ID),
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id.",
            id="both",
        ),
    ],
)
def test_deletion_of_an_unknown_topic_is_rejected(
    node: Any, state: DeleteTopicState, code: ErrorCode, message: str
) -> None:
    response = node.ask(DeleteTopicsRequest(topics=[state]))

    assert [(each.error_code, each.error_message) for each in response.responses] == [(code, message)]


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "by-name"])
def test_deleted_topic_loses_its_settings(node: Any, by_id: bool) -> None:
    node.create_topic("t", retention_ms="1000")
    topic_id = node.image.topics.by_name["t"].topic_id
    state = DeleteTopicState(name=None, topic_id=topic_id) if by_id else DeleteTopicState(name="t")

    response = node.ask(DeleteTopicsRequest(topics=[state]))

    assert (response.responses[0].name, response.responses[0].topic_id) == ("t", topic_id)
    assert node.image.topics.by_name == {}
    assert node.image.configs.of_topic("t") == {}

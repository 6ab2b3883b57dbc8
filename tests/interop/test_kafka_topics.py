"""kafka-topics: create, list, describe, grow and delete, and errors with messages that administrators search for."""

import re
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def topic(unique: Callable[[str], str]) -> str:
    return unique("topics")


def test_topic_is_created_described_and_deleted(
    kafka: Callable[..., Any], topic: str, eventually: Callable[..., Any]
) -> None:
    created = kafka(
        "kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000000"
    )
    listed = kafka("kafka-topics", "--list")
    described = kafka("kafka-topics", "--describe", "--topic", topic)

    assert created.lines == [f"Created topic {topic}."]
    assert topic in listed.lines
    head, *partitions = described.lines
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 3\tReplicationFactor: 1\t"
        r"Configs: .*retention\.ms=1000000.*",
        head,
    )
    for index, line in enumerate(partitions):
        leader = re.fullmatch(
            rf"\tTopic: {topic}\tPartition: {index}\tLeader: (\d+)\tReplicas: (\d+)\tIsr: (\d+)\t"
            r"Elr: \t?LastKnownElr: \t?",
            line,
        )
        assert leader, line
        assert len(set(leader.groups())) == 1
    assert len(partitions) == 3

    kafka("kafka-topics", "--delete", "--topic", topic)

    eventually(lambda: topic not in kafka("kafka-topics", "--list").lines)


def test_alter_adds_partitions_and_keeps_the_topic_id(kafka: Callable[..., Any], topic: str) -> None:
    kafka("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    before = kafka("kafka-topics", "--describe", "--topic", topic).lines

    kafka("kafka-topics", "--alter", "--topic", topic, "--partitions", "4")

    after = kafka("kafka-topics", "--describe", "--topic", topic).lines
    assert after[0] == before[0].replace("PartitionCount: 2", "PartitionCount: 4")
    assert after[1:3] == before[1:3]
    assert len(after) == 5


@pytest.mark.parametrize(
    ("partitions", "error"),
    [
        pytest.param("2", "The topic {topic} currently has 3 partition(s); 2 would not be an increase.", id="fewer"),
        pytest.param("3", "Topic already has 3 partition(s).", id="as-many"),
    ],
)
def test_alter_to_the_same_or_fewer_partitions_is_rejected(
    kafka: Callable[..., Any], topic: str, partitions: str, error: str
) -> None:
    kafka("kafka-topics", "--create", "--topic", topic, "--partitions", "3")

    rejected = kafka("kafka-topics", "--alter", "--topic", topic, "--partitions", partitions, code=1)

    assert rejected.lines == ["Error while executing topic command : " + error.format(topic=topic)]
    assert "org.apache.kafka.common.errors.InvalidPartitionsException" in rejected.stderr
    assert len(kafka("kafka-topics", "--describe", "--topic", topic).lines) == 4


def test_replication_factor_above_the_broker_count_is_rejected(kafka: Callable[..., Any], topic: str) -> None:
    rejected = kafka("kafka-topics", "--create", "--topic", topic, "--replication-factor", "3", code=1)

    assert rejected.lines == [
        "Error while executing topic command : Unable to replicate the partition 3 time(s): The target replication "
        "factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have all their log "
        "directories cordoned."
    ]
    assert "org.apache.kafka.common.errors.InvalidReplicationFactorException" in rejected.stderr
    assert topic not in kafka("kafka-topics", "--list").lines


def test_existing_topic_is_rejected_unless_if_not_exists_is_given(kafka: Callable[..., Any], topic: str) -> None:
    kafka("kafka-topics", "--create", "--topic", topic)

    rejected = kafka("kafka-topics", "--create", "--topic", topic, code=1)

    assert rejected.lines == [f"Error while executing topic command : Topic '{topic}' already exists."]
    assert "org.apache.kafka.common.errors.TopicExistsException" in rejected.stderr
    kafka("kafka-topics", "--create", "--topic", topic, "--if-not-exists")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param(
            "not a name",
            "Topic name is invalid: 'not a name' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
            id="spaces",
        ),
        pytest.param("..", "Topic name is invalid: '..' is not allowed", id="dots"),
        pytest.param(
            "x" * 250,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
            id="250",
        ),
    ],
)
def test_invalid_name_is_rejected(kafka: Callable[..., Any], name: str, error: str) -> None:
    rejected = kafka("kafka-topics", "--create", "--topic", name, code=1)

    assert rejected.lines[-1] == f"Error while executing topic command : {error}"


def test_unknown_config_name_is_rejected(kafka: Callable[..., Any], topic: str) -> None:
    rejected = kafka("kafka-topics", "--create", "--topic", topic, "--config", "no.such=1", code=1)

    assert rejected.lines == ["Error while executing topic command : Unknown topic config name: no.such"]
    assert "org.apache.kafka.common.errors.InvalidConfigurationException" in rejected.stderr


@pytest.mark.parametrize("action", ["--describe", "--delete"])
def test_missing_topic_is_an_error(kafka: Callable[..., Any], topic: str, action: str) -> None:
    rejected = kafka("kafka-topics", action, "--topic", topic, code=1)

    assert rejected.lines == [f"Error while executing topic command : Topic '{topic}' does not exist as expected"]


def test_no_partition_is_under_replicated_or_unavailable(kafka: Callable[..., Any]) -> None:
    assert kafka("kafka-topics", "--describe", "--under-replicated-partitions").lines == []
    assert kafka("kafka-topics", "--describe", "--unavailable-partitions").lines == []


def test_internal_topics_can_be_left_out(kafka: Callable[..., Any], topic: str) -> None:
    kafka("kafka-topics", "--create", "--topic", topic)

    listed = kafka("kafka-topics", "--list", "--exclude-internal").lines

    assert topic in listed
    assert "__consumer_offsets" not in listed

"""kafka-consumer-groups: list, describe, members, state, reset offsets, delete."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition


@pytest.fixture
def ottla(run: Callable[..., Any], broker: Any) -> Callable[..., Any]:
    """Return a function that runs an `ottla` command line against the node."""
    return lambda *arguments: run(*arguments, "-b", broker.bootstrap)


@pytest.fixture
def topic(new_topic: Callable[..., str], produce: Callable[..., Any]) -> str:
    """Two partitions with ten and five records."""
    name = new_topic(partitions=2)
    produce(name, [b"v"] * 10, partition=0)
    produce(name, [b"v"] * 5, partition=1)
    return name


@pytest.fixture
def empty_group(topic: str, unique: Callable[[str], str], commit: Callable[..., None]) -> str:
    """A group without members that has committed 7 on partition 0 and 5 on partition 1."""
    name = unique("group")
    commit(name, [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 5)])
    return name


@pytest.fixture
def live_group(broker: Any, topic: str, unique: Callable[[str], str], take: Callable[..., Any]) -> Iterator[str]:
    """A group with one member, client id ``reader``, that has read and committed everything."""
    name = unique("group")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": name,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    take(consumer, 15)
    consumer.commit(asynchronous=False)
    yield name
    consumer.close()


def test_groups_are_listed_with_state_and_type(kafka: Callable[..., Any], empty_group: str, live_group: str) -> None:
    names = kafka("kafka-consumer-groups", "--list").lines
    states = kafka("kafka-consumer-groups", "--list", "--state").rows
    types = kafka("kafka-consumer-groups", "--list", "--type").rows
    stable = kafka("kafka-consumer-groups", "--list", "--state", "stable").rows

    assert {empty_group, live_group} <= set(names)
    assert states[0] == ["GROUP", "STATE"]
    assert [empty_group, "Empty"] in states
    assert [live_group, "Stable"] in states
    assert [live_group, "Classic"] in types
    assert [live_group, "Stable"] in stable
    assert [empty_group, "Empty"] not in stable


def test_group_without_members_shows_its_offsets_and_lag(
    kafka: Callable[..., Any], empty_group: str, topic: str
) -> None:
    described = kafka("kafka-consumer-groups", "--describe", "--group", empty_group)

    assert described.rows == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"],
        [empty_group, topic, "0", "7", "10", "3", "-", "-", "-"],
        [empty_group, topic, "1", "5", "5", "0", "-", "-", "-"],
    ]
    assert f"Consumer group '{empty_group}' has no active members." in described.stderr


def test_live_group_shows_who_has_each_partition(kafka: Callable[..., Any], live_group: str, topic: str) -> None:
    described = kafka("kafka-consumer-groups", "--describe", "--group", live_group)

    member_id = described.rows[1][6]
    assert member_id.startswith("reader-")
    assert described.rows[1:] == [
        [live_group, topic, "0", "10", "10", "0", member_id, "/127.0.0.1", "reader"],
        [live_group, topic, "1", "5", "5", "0", member_id, "/127.0.0.1", "reader"],
    ]


def test_members_are_shown_with_their_assignment(kafka: Callable[..., Any], live_group: str, topic: str) -> None:
    brief = kafka("kafka-consumer-groups", "--describe", "--group", live_group, "--members")
    verbose = kafka("kafka-consumer-groups", "--describe", "--group", live_group, "--members", "--verbose")

    assert brief.rows[0] == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    (row,) = brief.rows[1:]
    assert [row[0], *row[2:]] == [live_group, "/127.0.0.1", "reader", "2"]
    assert f"{topic}:0,1" in verbose.stdout


def test_state_names_coordinator_strategy_and_member_count(
    kafka: Callable[..., Any], broker: Any, live_group: str
) -> None:
    header, row = kafka("kafka-consumer-groups", "--describe", "--group", live_group, "--state").rows

    assert header == ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert row[:2] == [live_group, broker.bootstrap]
    assert row[3:] == ["range", "Stable", "1"]


@pytest.mark.parametrize(
    ("arguments", "options", "offsets"),
    [
        pytest.param(["--to-earliest"], ["--to", "start"], {"0": "0", "1": "0"}, id="to-earliest"),
        pytest.param(["--to-latest"], ["--to", "end"], {"0": "10", "1": "5"}, id="to-latest"),
        pytest.param(["--to-offset", "4"], ["--to", "4"], {"0": "4", "1": "4"}, id="to-offset"),
        pytest.param(["--shift-by", "-2"], ["--shift", "-2"], {"0": "5", "1": "3"}, id="shift-back"),
        pytest.param(["--shift-by", "100"], ["--shift", "100"], {"0": "10", "1": "5"}, id="shift-past-the-end"),
        pytest.param(
            ["--to-datetime", "2001-01-01T00:00:00.000"],
            ["--to", "@2001-01-01T00:00:00.000"],
            {"0": "0", "1": "0"},
            id="to-datetime",
        ),
        pytest.param(["--to-current"], ["--to", "current"], {"0": "7", "1": "5"}, id="to-current"),
    ],
)
def test_offsets_are_reset(
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    empty_group: str,
    topic: str,
    arguments: list[str],
    options: list[str],
    offsets: dict[str, str],
) -> None:
    planned = json.loads(ottla("group", "reset", empty_group, topic, *options, "--dry-run", "-o", "json").out)
    assert {str(row["partition"]): str(row["newOffset"]) for row in planned} == offsets, "by ottla group reset"

    reset = kafka(
        "kafka-consumer-groups",
        *("--group", empty_group, "--reset-offsets", "--topic", topic, "--execute"),
        *arguments,
    )

    rows = sorted([empty_group, topic, partition, offset] for partition, offset in offsets.items())
    assert reset.rows[0] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    assert sorted(reset.rows[1:]) == rows
    described = kafka("kafka-consumer-groups", "--describe", "--group", empty_group).rows[1:]
    assert {row[2]: row[3] for row in described} == offsets


def test_dry_run_changes_nothing(kafka: Callable[..., Any], empty_group: str, topic: str) -> None:
    kafka(
        "kafka-consumer-groups",
        *("--group", empty_group, "--reset-offsets", "--topic", topic, "--to-earliest", "--dry-run"),
    )

    described = kafka("kafka-consumer-groups", "--describe", "--group", empty_group).rows[1:]
    assert [row[3] for row in described] == ["7", "5"]


def test_offsets_of_a_live_group_are_not_reset(kafka: Callable[..., Any], live_group: str, topic: str) -> None:
    rejected = kafka(
        "kafka-consumer-groups",
        *("--group", live_group, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute"),
        code=None,
    )

    said = rejected.stdout + rejected.stderr
    assert (
        f"Assignments can only be reset if the group '{live_group}' is inactive, but the current state is Stable."
        in said
    )


@pytest.mark.parametrize("command", ["reset", "delete"])
def test_ottla_changes_no_live_group(ottla: Callable[..., Any], live_group: str, topic: str, command: str) -> None:
    rest = (topic, "--to", "start") if command == "reset" else ()

    ran = ottla("group", command, live_group, *rest, "--yes")

    assert (ran.code, f"group {live_group} has 1 member(s), state Stable" in ran.err) == (1, True)


def test_offsets_of_one_partition_are_deleted(kafka: Callable[..., Any], empty_group: str, topic: str) -> None:
    deleted = kafka("kafka-consumer-groups", "--delete-offsets", "--group", empty_group, "--topic", f"{topic}:0")

    assert deleted.lines[0] == f"Request succeeded for deleting offsets from group {empty_group}."
    assert deleted.rows[1:] == [["TOPIC", "PARTITION", "STATUS"], [topic, "0", "Successful"]]
    described = kafka("kafka-consumer-groups", "--describe", "--group", empty_group).rows[1:]
    assert [row[2] for row in described] == ["1"]


def test_offsets_of_a_subscribed_topic_are_not_deleted(kafka: Callable[..., Any], live_group: str, topic: str) -> None:
    rejected = kafka("kafka-consumer-groups", "--delete-offsets", "--group", live_group, "--topic", topic)

    assert "GroupSubscribedToTopicException" in rejected.stdout
    assert len(kafka("kafka-consumer-groups", "--describe", "--group", live_group).rows) == 3


def test_empty_group_is_deleted_once(kafka: Callable[..., Any], empty_group: str) -> None:
    first = kafka("kafka-consumer-groups", "--delete", "--group", empty_group)
    second = kafka("kafka-consumer-groups", "--delete", "--group", empty_group)

    assert first.lines == [f"Deletion of requested consumer groups ('{empty_group}') was successful."]
    assert second.lines == [
        "Error: Deletion of some consumer groups failed:",
        f"* Group '{empty_group}' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist.",
    ]
    assert empty_group not in kafka("kafka-consumer-groups", "--list").lines


def test_live_group_is_not_deleted(kafka: Callable[..., Any], live_group: str) -> None:
    rejected = kafka("kafka-consumer-groups", "--delete", "--group", live_group)

    assert rejected.lines[1] == (
        f"* Group '{live_group}' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    )


def test_describing_a_missing_group_is_an_error(kafka: Callable[..., Any], unique: Callable[[str], str]) -> None:
    name = unique("nobody")

    rejected = kafka("kafka-consumer-groups", "--describe", "--group", name)

    assert rejected.lines == [
        "Error: Executing consumer group command failed due to "
        f"org.apache.kafka.common.errors.GroupIdNotFoundException: Group {name} not found."
    ]

"""The consumer protocol (KIP-848) by librdkafka and the JVM's tools: share, hand over, migrate, describe, delete."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

CONSUMER_PROTOCOL = "--consumer-property", "group.protocol=consumer"


class Member:
    """One consumer of the new protocol."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **settings: Any) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.values: list[bytes] = []
        self.is_closed = False
        self.consumer.subscribe(topics)

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values.append(message.value())

    def close(self) -> None:
        if not self.is_closed:
            self.consumer.close()
            self.is_closed = True


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("group")


@pytest.fixture
def join(broker: Any, group: str) -> Iterator[Callable[..., Member]]:
    """Return ``join(topics, **settings)``: one more member of this test's group (underscores in keys are dots)."""
    members: list[Member] = []

    def new(topics: list[str], **settings: Any) -> Member:
        members.append(Member(broker.bootstrap, group, topics, **settings))
        return members[-1]

    yield new
    for member in members:
        member.close()


def poll_until(members: list[Member], is_done: Callable[[], bool], timeout_s: float = 60) -> None:
    """Poll all members until ``is_done``."""
    deadline = time.monotonic() + timeout_s
    while not is_done():
        for member in members:
            member.poll()
        assert time.monotonic() < deadline, [member.partitions for member in members]


def settle(members: list[Member], shares: list[int]) -> None:
    """Poll until the members have as many partitions as ``shares``, in any order, each partition once."""

    def is_settled() -> bool:
        held = [partition for member in members for partition in member.partitions]
        sizes = sorted(len(member.partitions) for member in members)
        return sizes == sorted(shares) and len(held) == len(set(held))

    poll_until(members, is_settled)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_two_members_share_and_the_last_one_has_all(
    join: Callable[..., Member], new_topic: Callable[..., str], assignor: str
) -> None:
    topic = new_topic(partitions=4)

    first = join([topic], group_remote_assignor=assignor)
    settle([first], [4])
    second = join([topic], group_remote_assignor=assignor)
    settle([first, second], [2, 2])
    first.close()
    settle([second], [4])


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_members_of_both_protocols_share_a_group_that_is_converted_there_and_back(
    join: Callable[..., Member], new_topic: Callable[..., str], kafka: Callable[..., Any], group: str, strategy: str
) -> None:
    topic = new_topic(partitions=4)
    classic = {"group_protocol": "classic", "partition_assignment_strategy": strategy}

    first, second = join([topic], **classic), join([topic], **classic)
    settle([first, second], [2, 2])
    third = join([topic])
    settle([first, second, third], [1, 1, 2])
    assert [group, "Consumer"] in kafka("kafka-consumer-groups", "--list", "--type", "consumer").rows
    second.close()
    settle([first, third], [2, 2])
    third.close()
    settle([first], [4])
    assert [group, "Classic"] in kafka("kafka-consumer-groups", "--list", "--type", "classic").rows


def test_member_follows_topics_that_appear_grow_and_go(
    join: Callable[..., Member], unique: Callable[[str], str], admin: Any
) -> None:
    prefix = unique("pattern")
    member = join([f"^{prefix}.*"])
    poll_until([member], lambda: not member.partitions)

    created = f"{prefix}-a"
    admin.create_topics([NewTopic(created, num_partitions=1, replication_factor=1)])[created].result(timeout=30)
    poll_until([member], lambda: member.partitions == {(created, 0)})
    admin.create_partitions([NewPartitions(created, 2)])[created].result(timeout=30)
    poll_until([member], lambda: member.partitions == {(created, 0), (created, 1)})
    admin.delete_topics([created])[created].result(timeout=30)

    poll_until([member], lambda: not member.partitions)
    assert not member.partitions


def test_static_member_returns_to_its_partitions(join: Callable[..., Member], new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    first, second = join([topic], group_instance_id="one"), join([topic], group_instance_id="two")
    settle([first, second], [2, 2])
    partitions = first.partitions

    first.close()
    returned = join([topic], group_instance_id="one")
    poll_until([returned, second], lambda: bool(returned.partitions))

    assert returned.partitions == partitions


def test_committed_offsets_continue_after_a_member_is_gone(
    join: Callable[..., Member], new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=1)
    produce(topic, [b"1", b"2"], partition=0)
    first = join([topic], enable_auto_commit=False)
    poll_until([first], lambda: len(first.values) == 2)
    first.consumer.commit(asynchronous=False)
    first.close()
    produce(topic, [b"3"], partition=0)

    second = join([topic])
    poll_until([second], lambda: bool(second.values))

    assert second.values == [b"3"]


def test_java_console_consumer_reads_with_the_consumer_protocol(
    kafka: Callable[..., Any], new_topic: Callable[..., str], produce: Callable[..., Any], group: str
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        produce(topic, [b"value"] * 4, partition=partition)

    read = kafka(
        "kafka-console-consumer",
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "12"),
        *("--timeout-ms", "60000", *CONSUMER_PROTOCOL),
    )

    assert read.lines.count("value") == 12


def test_kafka_consumer_groups_describes_resets_and_deletes(
    kafka: Callable[..., Any],
    join: Callable[..., Member],
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
    group: str,
) -> None:
    topic = new_topic(partitions=2)
    produce(topic, [b"v"] * 5, partition=0)
    member = join([topic], client_id="reader")
    settle([member], [2])
    poll_until([member], lambda: len(member.values) == 5)
    member.consumer.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 0)], asynchronous=False)

    listed = kafka("kafka-consumer-groups", "--list", "--type", "consumer").rows
    described = kafka("kafka-consumer-groups", "--describe", "--group", group).rows
    members = kafka("kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose").rows
    state = kafka("kafka-consumer-groups", "--describe", "--group", group, "--state", "--verbose").rows

    assert [group, "Consumer"] in listed
    assert {(row[2], row[3]) for row in described if row[0] == group} == {("0", "5"), ("1", "0")}
    assert {row[-1] for row in described if row[0] == group} == {"reader"}
    assert [row[row.index("reader") + 1] for row in members if row[0] == group] == ["2"]
    assert any("Stable" in row for row in state)

    member.close()
    reset = kafka(
        "kafka-consumer-groups",
        *("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute"),
    ).rows
    assert {tuple(row[1:]) for row in reset if row[0] == group} == {(topic, "0", "0"), (topic, "1", "0")}
    deleted = kafka("kafka-consumer-groups", "--delete", "--group", group)
    assert "successful" in deleted.stdout
    assert group not in kafka("kafka-consumer-groups", "--list").lines

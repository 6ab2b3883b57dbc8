"""Share groups with Kafka's tools: consumers that share records, kafka-share-groups, settings of groups."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jvm_kafka import tool_command

from ottla.client.share_consumer import ShareConsumer

CONSUMER = "kafka-console-share-consumer"
GROUPS = "kafka-share-groups"


class ConsumerProcess:
    """A kafka-console-share-consumer in a JVM of its own, which writes to a file, or to a pipe that nothing reads."""

    def __init__(self, bootstrap: str, topic: str, group: str, output: Path | None) -> None:
        command = tool_command(CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
        self.output = output
        if output is None:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        else:
            with output.open("wb") as file:
                self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)

    @property
    def values(self) -> list[str]:
        assert self.output is not None
        return self.output.read_text().split()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def start_consumer(tmp_path: Path) -> Iterator[Callable[..., ConsumerProcess]]:
    """Return ``start_consumer(bootstrap, topic, group, is_blocked=False)``: run a consumer in a JVM of its own.

    One that is blocked has records, and accepts none.
    """
    started: list[ConsumerProcess] = []

    def start(bootstrap: str, topic: str, group: str, *, is_blocked: bool = False) -> ConsumerProcess:
        output = None if is_blocked else tmp_path / f"consumer-{len(started)}"
        started.append(ConsumerProcess(bootstrap, topic, group, output))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def ottla(run: Callable[..., Any], broker: Any) -> Callable[..., Any]:
    """Return a function that runs an `ottla` command line against the node."""
    return lambda *arguments: run(*arguments, "-b", broker.bootstrap)


def read_from_start(kafka: Callable[..., Any], group: str) -> None:
    """Let a group start at the start of its topics, and assign the partitions with the heartbeat of each new member.

    With the default interval of 1 s the target of the former members is kept, and the new one waits 5 s for its next.
    """
    kafka(
        *("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest,share.assignment.interval.ms=0"),
    )


@pytest.fixture
def group(kafka: Callable[..., Any], unique: Callable[[str], str]) -> str:
    """The name of a share group that starts at the start of its topics."""
    name = unique("share")
    read_from_start(kafka, name)
    return name


@pytest.fixture
def topic(new_topic: Callable[..., str], produce: Callable[..., Any]) -> str:
    """One partition with ten records, v0 to v9."""
    name = new_topic()
    produce(name, [b"v%d" % number for number in range(10)])
    return name


async def join_and_leave(bootstrap: str, group: str, topic: str) -> None:
    """Let the coordinator initialize the state of the topic, without which its partitions are not assigned."""
    async with ShareConsumer(bootstrap, group_id=group, topics=[topic]) as member:
        await member.poll(max_wait_ms=200)


@pytest.fixture
def read_group(kafka: Callable[..., Any], broker: Any, topic: str, group: str) -> str:
    """A share group without members that has accepted the first four records."""
    asyncio.run(join_and_leave(broker.bootstrap, group, topic))
    assert consume(kafka, topic, group, 4) == ["v0", "v1", "v2", "v3"]
    return group


def consume(kafka: Callable[..., Any], topic: str, group: str, count: int, *options: str) -> list[str]:
    """Return the next records of a group.

    There is no time limit: the first member may be assigned its partitions with its second heartbeat, after 5 s.
    """
    consumed = kafka(CONSUMER, "--topic", topic, "--group", group, "--max-messages", str(count), *options)
    lines: list[str] = consumed.lines
    return lines


def offsets_of(kafka: Callable[..., Any], group: str) -> list[list[str]]:
    """Return topic, partition, start offset and lag of each partition."""
    return [row[1:] for row in kafka(GROUPS, "--describe", "--group", group, "--offsets").rows if row[0] == group]


def lag_of(kafka: Callable[..., Any], group: str) -> str | None:
    return next((row[3] for row in offsets_of(kafka, group)), None)


def test_two_consumers_get_each_record_once_between_them(
    kafka: Callable[..., Any],
    broker: Any,
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
    group: str,
    start_consumer: Callable[..., ConsumerProcess],
    eventually: Callable[..., Any],
) -> None:
    topic = new_topic(partitions=2)
    consumers = [start_consumer(broker.bootstrap, topic, group) for _ in range(2)]
    members = eventually(
        lambda: len(rows := kafka(GROUPS, "--describe", "--group", group, "--members").rows) == 3 and rows
    )

    sent = [f"v{number}" for number in range(200)]
    for start in range(0, len(sent), 10):
        produce(topic, [value.encode() for value in sent[start : start + 10]])
    eventually(lambda: sum(len(each.values) for each in consumers) >= len(sent))

    assert members[0] == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert {tuple(row[:1] + row[2:3]) for row in members[1:]} == {(group, "/127.0.0.1")}
    assert sorted(consumers[0].values + consumers[1].values) == sorted(sent)
    eventually(lambda: {row[3] for row in offsets_of(kafka, group)} == {"0"})
    state = kafka(GROUPS, "--describe", "--group", group, "--state").rows
    assert [state[1][0], state[1][1], *state[1][3:]] == [group, broker.bootstrap, "Stable", "2"]


def test_records_of_a_killed_consumer_are_delivered_to_the_next_one_at_once(
    kafka: Callable[..., Any],
    broker: Any,
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
    group: str,
    start_consumer: Callable[..., ConsumerProcess],
) -> None:
    topic = new_topic()
    sent = [f"{number:010000}" for number in range(20)]
    produce(topic, [value.encode() for value in sent])
    blocked = start_consumer(broker.bootstrap, topic, group, is_blocked=True)
    assert blocked.process.stdout is not None
    assert os.read(blocked.process.stdout.fileno(), 1) == b"0", "it has the records"
    blocked.kill()

    started_s = time.monotonic()
    delivered = kafka(
        *(CONSUMER, "--topic", topic, "--group", group, "--max-messages", "20"),
        *("--formatter-property", "print.delivery=true"),
    ).rows
    took_s = time.monotonic() - started_s

    assert [row[-1] for row in delivered] == sent
    assert {row[0] for row in delivered} == {"Delivery:2"}
    assert took_s < 20, "the lock of a record is 30 s"


def test_released_records_are_delivered_again_and_rejected_ones_are_not(
    kafka: Callable[..., Any], topic: str, group: str
) -> None:
    released = consume(kafka, topic, group, 3, "--release")
    rejected = consume(kafka, topic, group, 4, "--reject")
    accepted = consume(kafka, topic, group, 6)

    assert (released, rejected) == (["v0", "v1", "v2"], ["v0", "v1", "v2", "v3"])
    assert accepted == ["v4", "v5", "v6", "v7", "v8", "v9"]
    assert lag_of(kafka, group) == "0"


def test_group_is_listed_and_described_with_start_offset_and_lag(
    kafka: Callable[..., Any], ottla: Callable[..., Any], read_group: str, topic: str
) -> None:
    described = kafka(GROUPS, "--describe", "--group", read_group)
    own = json.loads(ottla("group", "describe", read_group, "-o", "json").out)

    (row,) = own["partitions"]
    assert described.rows[0] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert described.rows[1][:3] == [read_group, topic, "0"]
    assert described.rows[1][4] == "6"
    assert [str(row["startOffset"]), str(row["lag"])] == described.rows[1][3:]
    assert (own["type"], own["state"], own["totalLag"]) == ("share", "Empty", 6)
    assert read_group in kafka(GROUPS, "--list").lines
    assert [read_group, "Empty"] in kafka(GROUPS, "--list", "--state").rows
    assert read_group not in kafka(GROUPS, "--list", "--state", "stable").stdout
    assert [read_group, "Share", "share"] in kafka("kafka-groups", "--list", "--share").rows


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_reset_delivers_records_again_that_were_accepted(
    kafka: Callable[..., Any], ottla: Callable[..., Any], read_group: str, topic: str, tool: str
) -> None:
    if tool == "kafka":
        arguments = ("--reset-offsets", "--group", read_group, "--topic", topic)
        reset = kafka(GROUPS, *arguments, "--to-earliest", "--execute")
        assert [read_group, topic, "0", "0"] in reset.rows
    else:
        assert ottla("group", "reset", read_group, topic, "--to", "start", "--yes").code == 0

    assert offsets_of(kafka, read_group) == [[topic, "0", "0", "10"]]
    assert consume(kafka, topic, read_group, 10) == [f"v{number}" for number in range(10)]
    assert lag_of(kafka, read_group) == "0"


def test_reset_to_the_end_skips_what_was_not_delivered(
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    produce: Callable[..., Any],
    read_group: str,
    topic: str,
) -> None:
    assert ottla("group", "reset", read_group, "--all-topics", "--to", "end", "--yes").code == 0

    assert offsets_of(kafka, read_group) == [[topic, "0", "10", "0"]]
    produce(topic, [b"later"])
    assert consume(kafka, topic, read_group, 1) == ["later"]


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_offsets_of_a_topic_are_deleted(
    kafka: Callable[..., Any], ottla: Callable[..., Any], read_group: str, topic: str, tool: str
) -> None:
    if tool == "kafka":
        deleted = kafka(GROUPS, "--delete-offsets", "--group", read_group, "--topic", topic)
        assert deleted.rows[-1] == [topic, "Successful"]
    else:
        assert ottla("group", "delete-offsets", read_group, topic, "--yes").code == 0

    assert offsets_of(kafka, read_group) == []


@pytest.mark.parametrize("tool", ["kafka", "ottla"])
def test_group_is_deleted(kafka: Callable[..., Any], ottla: Callable[..., Any], read_group: str, tool: str) -> None:
    if tool == "kafka":
        deleted = kafka(GROUPS, "--delete", "--group", read_group)
        assert deleted.lines == [f"Deletion of requested share groups ('{read_group}') was successful."]
    else:
        assert ottla("group", "delete", read_group, "--yes").code == 0

    assert read_group not in kafka(GROUPS, "--list").lines
    assert ottla("group", "describe", read_group).code == 3


def test_group_with_a_member_is_neither_reset_nor_deleted(
    kafka: Callable[..., Any],
    ottla: Callable[..., Any],
    broker: Any,
    read_group: str,
    topic: str,
    start_consumer: Callable[..., ConsumerProcess],
    eventually: Callable[..., Any],
) -> None:
    start_consumer(broker.bootstrap, topic, read_group)
    eventually(lambda: lag_of(kafka, read_group) == "0")

    arguments = ("--reset-offsets", "--group", read_group, "--topic", topic, "--to-earliest", "--execute")
    reset = kafka(GROUPS, *arguments, code=None)
    deleted = kafka(GROUPS, "--delete", "--group", read_group, code=None)
    members = json.loads(ottla("group", "members", read_group, "-o", "json").out)

    assert f"Share group '{read_group}' is not empty." in reset.stdout + reset.stderr
    assert "is not EMPTY" in deleted.stdout + deleted.stderr
    assert [each["assignment"] for each in members] == [[f"{topic}-0"]]
    assert "has 1 member(s), state Stable" in ottla("group", "delete", read_group, "--yes").err


def test_settings_of_a_group_are_described_with_their_defaults(kafka: Callable[..., Any], group: str) -> None:
    described = kafka("kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", group, "--all").lines

    assert (
        "  share.auto.offset.reset=earliest sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:"
        "share.auto.offset.reset=earliest, DEFAULT_CONFIG:share.auto.offset.reset=latest}"
    ) in described
    assert (
        "  share.isolation.level=read_uncommitted sensitive=false "
        "synonyms={DEFAULT_CONFIG:share.isolation.level=read_uncommitted}"
    ) in described


def test_verifiable_consumer_has_its_records_acknowledged(
    kafka: Callable[..., Any], topic: str, unique: Callable[[str], str]
) -> None:
    group = unique("verifiable")
    options = ("--max-messages", "10", "--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync")

    lines = kafka("kafka-verifiable-share-consumer", "--topic", topic, "--group-id", group, *options).lines

    events = [json.loads(line) for line in lines if line.startswith("{")]
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert sum(event["count"] for event in acknowledged) == 10
    assert {event["success"] for event in acknowledged} == {True}
    assert lag_of(kafka, group) == "0"


def test_perf_test_consumes_all_records(kafka: Callable[..., Any], topic: str, group: str) -> None:
    ran = kafka("kafka-share-consumer-perf-test", "--topic", topic, "--group", group, "--num-records", "10")

    assert ran.lines[-1].split(", ")[5] == "10"


def test_restarted_node_loses_no_record_and_delivers_none_again(
    new_node: Callable[..., Any],
    kafka_tool: Callable[..., Any],
    start_consumer: Callable[..., ConsumerProcess],
    eventually: Callable[..., Any],
    unique: Callable[[str], str],
) -> None:
    node, topic, group = new_node(), unique("topic"), unique("share")

    def kafka(name: str, *args: str, **more: Any) -> Any:
        return kafka_tool(name, "--bootstrap-server", node.bootstrap, *args, **more)

    def send(first: int) -> None:
        kafka("kafka-console-producer", "--topic", topic, input="".join(f"v{first + i}\n" for i in range(10)))

    kafka("kafka-topics", "--create", "--topic", topic)
    read_from_start(kafka, group)
    consumer = start_consumer(node.bootstrap, topic, group)
    send(0)
    eventually(lambda: lag_of(kafka, group) == "0")
    node.kill()
    node.start()
    send(10)
    eventually(lambda: len(consumer.values) >= 20, timeout_s=60)
    eventually(lambda: lag_of(kafka, group) == "0")

    assert consumer.values == [f"v{number}" for number in range(20)]
    consumer.kill()
    send(20)
    assert consume(kafka, topic, group, 10) == [f"v{number}" for number in range(20, 30)]

"""kafka-console-producer and kafka-console-consumer: produced records are consumed unchanged, with all their fields."""

from collections.abc import Callable
from typing import Any

import pytest


def test_console_lines_are_consumed_in_order(kafka: Callable[..., Any], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    lines = [f"line {number} äöü €" for number in range(50)]

    kafka("kafka-console-producer", "--topic", topic, input="\n".join(lines) + "\n")
    read = kafka("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "50")

    assert read.lines == lines
    assert "Processed a total of 50 messages" in read.stderr


def test_key_headers_partition_offset_and_timestamp_are_kept(
    kafka: Callable[..., Any], new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    properties = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]

    kafka(
        "kafka-console-producer",
        "--topic",
        topic,
        *(word for text in properties for word in ("--reader-property", text)),
        input="h1:a,h2:b\tkey\tvalue\nNULL\tNULL\tNULL\n",
    )
    shown = ["timestamp", "partition", "offset", "headers", "key"]
    read = kafka(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "2"),
        *(word for name in shown for word in ("--formatter-property", f"print.{name}=true")),
    )

    first, second = (line.split("\t") for line in read.lines)
    assert first[0].startswith("CreateTime:1")
    assert first[1:] == ["Partition:0", "Offset:0", "h1:a,h2:b", "key", "value"]
    assert second[1:] == ["Partition:0", "Offset:1", "NO_HEADERS", "null", "null"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_client_reads_back_each_compression(
    kafka: Callable[..., Any], new_topic: Callable[..., str], codec: str
) -> None:
    topic = new_topic()
    text = "the same words over and over " * 20

    kafka("kafka-console-producer", "--topic", topic, "--compression-codec", codec, input=f"{text}\n" * 20)
    read = kafka(
        "kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "20"
    )

    assert read.lines == [text] * 20


def test_partition_can_be_read_from_an_offset(
    kafka: Callable[..., Any], new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=2)
    produce(topic, [str(number).encode() for number in range(10)], partition=1)

    read = kafka("kafka-console-consumer", "--topic", topic, "--partition", "1", "--offset", "7", "--max-messages", "3")

    assert read.lines == ["7", "8", "9"]


def test_group_resumes_from_its_committed_offsets(
    kafka: Callable[..., Any], new_topic: Callable[..., str], produce: Callable[..., Any], unique: Callable[[str], str]
) -> None:
    topic = new_topic()
    produce(topic, [b"one", b"two", b"three"])
    arguments = ["--topic", topic, "--group", unique("console"), "--from-beginning", "--max-messages"]

    first = kafka("kafka-console-consumer", *arguments, "2")
    second = kafka("kafka-console-consumer", *arguments, "1")

    assert (first.lines, second.lines) == (["one", "two"], ["three"])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_is_served(
    kafka: Callable[..., Any], new_topic: Callable[..., str], consume: Callable[..., Any], acks: str
) -> None:
    topic = new_topic()
    properties = [
        "--command-property",
        f"acks={acks}",
        "--command-property",
        f"enable.idempotence={str(acks == 'all').lower()}",
    ]

    kafka("kafka-console-producer", "--topic", topic, *properties, input="x\ny\n")

    assert [record.value() for record in consume(topic, 2)] == [b"x", b"y"]


def test_missing_topic_is_created_by_a_produce(kafka: Callable[..., Any], unique: Callable[[str], str]) -> None:
    topic = unique("auto-created")

    kafka("kafka-console-producer", "--topic", topic, input="first\n")

    read = kafka("kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "1")
    assert read.lines == ["first"]

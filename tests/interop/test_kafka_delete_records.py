"""kafka-delete-records: the log start offset moves up to the asked offset, and never past the high watermark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def delete_to(kafka: Callable[..., Any], tmp_path: Path) -> Callable[[str, dict[int, int]], list[str]]:
    def run(topic: str, offsets: dict[int, int]) -> list[str]:
        rows = [{"topic": topic, "partition": partition, "offset": offset} for partition, offset in offsets.items()]
        path = tmp_path / "offsets.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        lines: list[str] = kafka("kafka-delete-records", "--offset-json-file", str(path)).lines
        assert lines[:2] == ["Executing records delete operation", "Records delete operation completed:"]
        return sorted(lines[2:])

    return run


def test_records_below_the_offset_are_deleted(
    kafka: Callable[..., Any],
    delete_to: Callable[..., list[str]],
    new_topic: Callable[..., str],
    produce: Callable[..., Any],
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        produce(topic, [b"%d" % number for number in range(10)], partition=partition)

    output = delete_to(topic, {0: 4, 1: -1})

    assert output == [f"partition: {topic}-0\tlow_watermark: 4", f"partition: {topic}-1\tlow_watermark: 10"]
    assert kafka("kafka-get-offsets", "--topic", topic, "--time", "earliest").lines == [f"{topic}:0:4", f"{topic}:1:10"]
    assert kafka("kafka-get-offsets", "--topic", topic).lines == [f"{topic}:0:10", f"{topic}:1:10"]
    read = kafka(
        "kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "1"
    )
    assert read.lines == ["4"]


def test_offset_past_the_end_is_rejected(
    delete_to: Callable[..., list[str]], new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic()
    produce(topic, [b"only"])

    output = delete_to(topic, {0: 2})

    assert output == [
        f"partition: {topic}-0\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException: "
        "The requested offset is not within the range of offsets maintained by the server."
    ]

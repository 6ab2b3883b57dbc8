"""kafka-get-offsets: the end, the start, a time, and the largest timestamp of each partition."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer


@pytest.fixture
def stamped_topic(broker: Any, new_topic: Callable[..., str]) -> str:
    """Two partitions; partition 0 holds timestamps 1000, 3000, 2000 at offsets 0, 1, 2, each in its own batch."""
    topic = new_topic(partitions=2, retention_ms=-1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for timestamp_ms in (1000, 3000, 2000):
        producer.produce(topic, b"v", partition=0, timestamp=timestamp_ms)
        assert producer.flush(30) == 0
    return topic


@pytest.mark.parametrize(
    ("time", "offsets"),
    [
        pytest.param("latest", ["0:3", "1:0"], id="latest"),
        pytest.param("-1", ["0:3", "1:0"], id="latest-as-number"),
        pytest.param("earliest", ["0:0", "1:0"], id="earliest"),
        pytest.param("max-timestamp", ["0:1"], id="max-timestamp"),
        pytest.param("1000", ["0:0"], id="at-the-first-timestamp"),
        pytest.param("1001", ["0:1"], id="past-the-first-timestamp"),
        pytest.param("3000", ["0:1"], id="at-the-largest-timestamp"),
        pytest.param("3001", [], id="past-every-timestamp"),
    ],
)
def test_partition_without_such_an_offset_is_left_out(
    kafka: Callable[..., Any], stamped_topic: str, time: str, offsets: list[str]
) -> None:
    shown = kafka("kafka-get-offsets", "--topic", stamped_topic, "--time", time)

    assert shown.lines == [f"{stamped_topic}:{text}" for text in offsets]


def test_partitions_can_be_picked(kafka: Callable[..., Any], stamped_topic: str) -> None:
    picked = kafka("kafka-get-offsets", "--topic-partitions", f"{stamped_topic}:0,{stamped_topic}:1-")

    assert picked.lines == [f"{stamped_topic}:0:3", f"{stamped_topic}:1:0"]

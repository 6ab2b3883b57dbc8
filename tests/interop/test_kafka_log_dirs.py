"""kafka-log-dirs: where each partition lies, and how many bytes it has."""

import json
from collections.abc import Callable
from typing import Any


def test_sizes_are_those_of_the_segment_files(
    kafka: Callable[..., Any], broker: Any, new_topic: Callable[..., str], produce: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=2)
    produce(topic, [b"x" * 1000] * 50, partition=1)

    shown = kafka("kafka-log-dirs", "--describe", "--topic-list", topic)

    assert shown.lines[0] == "Querying brokers for log directories information"
    assert shown.lines[1].startswith("Received log directory information from brokers ")
    (node,) = json.loads(shown.lines[2])["brokers"]
    (directory,) = node["logDirs"]
    assert directory["error"] is None
    assert directory["logDir"] == str(broker.data_dir)
    by_name = {row["partition"]: row for row in directory["partitions"]}
    size_bytes = (broker.data_dir / f"{topic}-1" / f"{0:020}.log").stat().st_size
    assert by_name == {
        f"{topic}-0": {"partition": f"{topic}-0", "size": 0, "offsetLag": 0, "isFuture": False},
        f"{topic}-1": {"partition": f"{topic}-1", "size": size_bytes, "offsetLag": 0, "isFuture": False},
    }
    assert size_bytes > 50_000

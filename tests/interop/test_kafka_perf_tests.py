"""kafka-producer-perf-test and kafka-consumer-perf-test: they run to the end and count every record."""

import re
from collections.abc import Callable
from typing import Any


def test_java_client_produces_and_consumes_every_record(
    kafka: Callable[..., Any], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=6)

    produced = kafka(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "1000", "--throughput", "-1"),
    )
    offsets = kafka("kafka-get-offsets", "--topic", topic)
    consumed = kafka("kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000")

    assert re.match(
        r"20000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency,", produced.lines[-1]
    )
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.lines) == 20000
    header, row = (line.split(", ") for line in consumed.lines)
    assert dict(zip(header, row, strict=True))["data.consumed.in.nMsg"] == "20000"


def test_idempotent_java_producer_with_acks_all_is_served(
    kafka: Callable[..., Any], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)

    produced = kafka(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "acks=all", "enable.idempotence=true", "compression.type=lz4", "linger.ms=0"),
    )

    assert produced.lines[-1].startswith("2000 records sent, ")

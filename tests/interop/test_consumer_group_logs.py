"""A node of Ottla is replaced by JVM Kafka on the same directory, and back: each loads the other's consumer groups."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from jvm_kafka import kafka_command

PARTITIONS = 4


def join(bootstrap: str, topic: str) -> Consumer:
    """Return a member that owns every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "group.protocol": "consumer", "log_level": 0})
    consumer.subscribe([topic])
    while len(consumer.assignment()) < PARTITIONS:
        consumer.poll(0.1)
    return consumer


def commit(consumer: Consumer, topic: str, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def test_groups_continue_on_the_other_implementation(
    new_node: Callable[..., Any], free_port: Callable[[], int], kafka_tool: Callable[..., Any]
) -> None:
    java: list[str] = []

    def command(port: int, directory: Path) -> list[str]:
        java[:] = kafka_command(Path(os.environ["OTTLA_KAFKA_LIBS"]), free_port())(port, directory)
        return [sys.executable, "-m", "ottla", "run", "-c", str(directory / "server.properties")]

    def members() -> list[list[str]]:
        tool = kafka_tool(
            "kafka-consumer-groups", "--bootstrap-server", node.bootstrap, "--describe", "--group", "g", "--members",
            "--verbose",
        )  # fmt: skip
        return [line.split() for line in tool.lines if line.startswith("g ")]

    node = new_node(command_of=command)
    ours = node.command
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
    for _ in range(10):
        producer.produce("t", b"x", partition=0)
    producer.flush()
    first = join(node.bootstrap, "t")
    commit(first, "t", 3)
    before = members()

    node.kill()
    node.command = java
    node.start()
    on_kafka = members()
    first.poll(1)
    commit(first, "t", 5)

    node.kill()
    node.command = ours
    node.start()
    back = members()
    commit(first, "t", 7)
    first.close()

    assert len(before) == 1
    assert before == on_kafka == back
    second = join(node.bootstrap, "t")
    assert second.committed([TopicPartition("t", 0)], 30)[0].offset == 7
    second.close()

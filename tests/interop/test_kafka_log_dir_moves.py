"""kafka-reassign-partitions with log directories, and kafka-log-dirs, against a node with two directories."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from configured_node import ottla_command
from confluent_kafka import Consumer, Producer, TopicPartition

COUNT = 20_000


@pytest.fixture(scope="module")
def node(new_node: Callable[..., Any], free_port: Callable[[], int]) -> Any:
    """A node with the log directories ``a`` and ``b``."""
    return new_node(
        command_of=ottla_command(
            free_port(),
            lambda directory: {"log.dirs": f"{directory}/a,{directory}/b", "offsets.topic.replication.factor": "1"},
        )
    )


@pytest.fixture
def tool(node: Any, kafka_tool: Callable[..., Any]) -> Callable[..., Any]:
    return lambda name, *args, **more: kafka_tool(name, "--bootstrap-server", node.bootstrap, *args, **more)


@pytest.fixture
def topic(tool: Callable[..., Any], unique: Callable[[str], str], node: Any) -> str:
    """A topic with one partition, which has ``COUNT`` records."""
    name = unique("moved")
    tool("kafka-topics", "--create", "--topic", name, "--partitions", "1", "--config", "segment.bytes=1048576")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
    for number in range(COUNT):
        producer.produce(name, b"%d" % number * 40, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return name


def directories(tool: Callable[..., Any], topic: str) -> dict[str, bool]:
    """Return the log directories of the partition by name, and whether the log there is a future one."""
    shown = tool("kafka-log-dirs", "--describe", "--topic-list", topic).lines[2]
    (broker,) = json.loads(shown)["brokers"]
    return {Path(each["logDir"]).name: row["isFuture"] for each in broker["logDirs"] for row in each["partitions"]}


@pytest.fixture
def plan(topic: str, tmp_path: Path) -> Callable[[Path], str]:
    """Return ``plan(log_dir)``: write the plan that moves the partition to a log directory, and return its path."""

    def write(log_dir: Path) -> str:
        path = tmp_path / "plan.json"
        replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(log_dir)]}
        path.write_text(json.dumps({"version": 1, "partitions": [replica]}))
        return str(path)

    return write


def source_and_target(tool: Callable[..., Any], topic: str) -> tuple[str, str]:
    """Return the name of the log directory of the partition, and that of the other one."""
    (source,) = directories(tool, topic)
    return source, {"a": "b", "b": "a"}[source]


def read_all(node: Any, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < COUNT:
        found = consumer.consume(5_000, timeout=30)
        assert found, f"only {len(values)} records"
        values += [message.value() for message in found]
    consumer.close()
    return values


def test_replica_is_moved_and_the_move_is_verified(
    node: Any, tool: Callable[..., Any], topic: str, plan: Callable[[Path], str], eventually: Callable[..., object]
) -> None:
    source, target = source_and_target(tool, topic)
    arguments = ("--reassignment-json-file", plan(node.directory / target))

    executed = tool("kafka-reassign-partitions", *arguments, "--execute")
    assert f"started moving log directory to {node.directory / target} for replica {topic}-0" in executed.stdout

    def is_complete() -> bool:
        verified = tool("kafka-reassign-partitions", *arguments, "--verify")
        return f"Reassignment of replica {topic}-0-1 completed successfully." in verified.stdout

    eventually(is_complete)
    assert directories(tool, topic) == {target: False}
    assert (node.directory / target / f"{topic}-0").is_dir()
    assert not (node.directory / source / f"{topic}-0").exists()
    assert read_all(node, topic) == [b"%d" % number * 40 for number in range(COUNT)]


def test_throttled_move_is_shown_and_survives_a_kill(
    node: Any, tool: Callable[..., Any], topic: str, plan: Callable[[Path], str], eventually: Callable[..., object]
) -> None:
    source, target = source_and_target(tool, topic)
    arguments = ("--reassignment-json-file", plan(node.directory / target))
    tool("kafka-reassign-partitions", *arguments, "--replica-alter-log-dirs-throttle", "1000", "--execute")

    assert directories(tool, topic) == {source: False, target: True}
    verified = tool("kafka-reassign-partitions", *arguments, "--verify", "--preserve-throttles")
    assert f"Reassignment of replica {topic}-0-1 is still in progress." in verified.stdout
    node.kill()
    node.start()
    assert directories(tool, topic) == {source: False, target: True}

    setting = ("--entity-type", "brokers", "--entity-name", "1", "--alter")
    tool("kafka-configs", *setting, "--delete-config", "replica.alter.log.dirs.io.max.bytes.per.second")
    eventually(lambda: directories(tool, topic) == {target: False})

    assert read_all(node, topic) == [b"%d" % number * 40 for number in range(COUNT)]


def test_unknown_directory_is_rejected(tool: Callable[..., Any], plan: Callable[[Path], str]) -> None:
    arguments = ("--reassignment-json-file", plan(Path("/nowhere")))

    rejected = tool("kafka-reassign-partitions", *arguments, "--execute", code=None)

    assert "LogDirNotFoundException" in rejected.stdout + rejected.stderr

"""kafka-reassign-partitions with log directories, and kafka-log-dirs, against a node with two directories."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
COUNT = 20_000


@pytest.fixture(scope="module")
def node(new_node: Callable[..., Any], free_port: Callable[[], int]) -> Any:
    """A node with the log directories ``a`` and ``b``."""

    def command(port: int, directory: Path) -> list[str]:
        controller = f"127.0.0.1:{free_port()}"
        config = directory / "server.properties"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{directory}/a,{directory}/b",
            "offsets.topic.replication.factor": "1",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        ottla = [sys.executable, "-m", "ottla"]
        subprocess.run([*ottla, "format", "-t", CLUSTER_ID, "-c", str(config), "--standalone"], check=True)
        return [*ottla, "run", "-c", str(config), "--log-level", "info"]

    return new_node(command_of=command)


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
    node: Any, tool: Callable[..., Any], topic: str, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    (source,) = directories(tool, topic)
    target = {"a": "b", "b": "a"}[source]
    plan = tmp_path / "plan.json"
    replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(node.directory / target)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replica]}))

    executed = tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")
    assert f"started moving log directory to {node.directory / target} for replica {topic}-0" in executed.stdout

    def is_complete() -> bool:
        verified = tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify")
        return f"Reassignment of replica {topic}-0-1 completed successfully." in verified.stdout

    eventually(is_complete)
    assert directories(tool, topic) == {target: False}
    assert (node.directory / target / f"{topic}-0").is_dir()
    assert not (node.directory / source / f"{topic}-0").exists()
    assert read_all(node, topic) == [b"%d" % number * 40 for number in range(COUNT)]


def test_throttled_move_is_shown_and_survives_a_kill(
    node: Any, tool: Callable[..., Any], topic: str, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    (source,) = directories(tool, topic)
    target = {"a": "b", "b": "a"}[source]
    plan = tmp_path / "plan.json"
    replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(node.directory / target)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replica]}))
    throttle = ("--replica-alter-log-dirs-throttle", "1000")
    tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), *throttle, "--execute")

    assert directories(tool, topic) == {source: False, target: True}
    verified = tool(
        "kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--verify", "--preserve-throttles"
    )
    assert f"Reassignment of replica {topic}-0-1 is still in progress." in verified.stdout
    node.kill()
    node.start()
    assert directories(tool, topic) == {source: False, target: True}

    setting = ("--entity-type", "brokers", "--entity-name", "1", "--alter")
    tool("kafka-configs", *setting, "--delete-config", "replica.alter.log.dirs.io.max.bytes.per.second")
    eventually(lambda: directories(tool, topic) == {target: False})

    assert read_all(node, topic) == [b"%d" % number * 40 for number in range(COUNT)]


def test_unknown_directory_is_rejected(tool: Callable[..., Any], topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["/nowhere"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replica]}))

    rejected = tool("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute", code=None)

    assert "LogDirNotFoundException" in rejected.stdout + rejected.stderr

"""Kafka Connect, distributed: a file source with exactly-once support and a file sink; a worker and a node are killed.

The group's offsets, configurations and states are in three compacted topics on the nodes.
"""

import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tool_host import PROGRAM_FLAGS

TOPIC = "connected"
LINES = 3000
LINES_AT_ONCE = 20
SEED = 25
SETTINGS = {
    "group.id": "connect",
    "exactly.once.source.support": "enabled",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
    **{f"{name}.storage.topic": f"connect-{name}" for name in ("offset", "config", "status")},
}


@pytest.fixture
def jars() -> str:
    """Return the class path of Kafka Connect."""
    home = Path(os.environ.get("OTTLA_KAFKA_LIBS", "")).parent
    if not any((home / "ecosystem").glob("connect-runtime-[0-9]*.jar")):
        pytest.skip("the folder beside OTTLA_KAFKA_LIBS, ecosystem, does not have Kafka Connect")
    return f"{home}/ecosystem/*:{home}/libs/*"


def request(port: int, method: str, path: str, body: object = None) -> Any:
    """Return a worker's response, or None while it starts, rebalances, or does not know the connector."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    call = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(call, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code not in (404, 409, 500, 503):
            raise
        return None
    except (ConnectionError, TimeoutError, urllib.error.URLError):
        return None


def running_on(port: int, connector: str) -> str | None:
    """Return the worker that runs the connector's only task."""
    status = request(port, "GET", f"/connectors/{connector}/status")
    tasks = status["tasks"] if status else []
    return tasks[0]["worker_id"] if tasks and tasks[0]["state"] == "RUNNING" else None


def append_slowly(path: Path, lines: list[str]) -> None:
    """Append lines for some seconds.

    The source keeps lines beyond its batch.size until the file grows again, so its batches must hold all lines.
    """
    for first in range(0, len(lines), LINES_AT_ONCE):
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines[first : first + LINES_AT_ONCE])
        time.sleep(0.05)


@pytest.mark.timeout(300)
def test_each_line_is_a_record_once_although_a_worker_and_a_node_are_killed(
    five: Any,
    jars: str,
    start: Callable[..., Any],
    free_port: Callable[[], int],
    read_committed: Callable[..., list[Any]],
    tmp_path: Path,
) -> None:
    choices = random.Random(SEED)
    five.create(TOPIC, "--partitions", "1", "--replication-factor", "3")
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.touch()
    ports = (free_port(), free_port())
    workers = {}
    for port in ports:
        listener = {"bootstrap.servers": five.bootstrap, "listeners": f"http://127.0.0.1:{port}"}
        config = tmp_path / f"worker-{port}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in (SETTINGS | listener).items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        workers[port] = start(["java", *PROGRAM_FLAGS, "-cp", jars, main, str(config)], f"worker-{port}")

    source_config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": TOPIC}
    source_config |= {"exactly.once.support": "required", "batch.size": str(LINES)}
    sink_config = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(sink), "topics": TOPIC}
    for port in ports:
        five.wait_for(lambda port=port: request(port, "GET", "/connectors") is not None)
    for name, config_map in (("source", source_config), ("sink", sink_config)):
        five.wait_for(lambda name=name, new=config_map: request(ports[0], "PUT", f"/connectors/{name}/config", new))
    five.wait_for(lambda: running_on(ports[0], "sink"))
    worker = five.wait_for(lambda: running_on(ports[0], "source"))

    lines = [f"line {number}" for number in range(LINES)]
    writer = threading.Thread(target=append_slowly, args=(source, lines))
    writer.start()
    read_committed(five.bootstrap, TOPIC, partitions=1, count=LINES_AT_ONCE, exact=False)
    killed = int(worker.rsplit(":", 1)[1])
    (survivor,) = (port for port in ports if port != killed)
    workers[killed].kill()
    workers[killed].wait()
    five.kill_and_restart(choices)
    writer.join()

    five.wait_for(lambda: running_on(survivor, "source") == f"127.0.0.1:{survivor}")
    records = read_committed(five.bootstrap, TOPIC, partitions=1, count=LINES)
    assert [each.value().decode() for each in records] == lines
    five.wait_for(lambda: sink.exists() and set(lines) <= set(sink.read_text().splitlines()))
    cleanup = {each["Topic"]: each["Configs"] for each in described(five)}
    assert all("cleanup.policy=compact" in cleanup[f"connect-{name}"] for name in ("offset", "config", "status"))


def described(five: Any) -> list[dict[str, str]]:
    """Return the topics that kafka-topics describes, with their configurations."""
    shown = five.tool("kafka-topics", "--describe")
    heads = [line.split("\t") for line in shown.lines if line.startswith("Topic: ")]
    return [{key: text.strip() for key, text in (each.split(":", 1) for each in head if ":" in each)} for head in heads]

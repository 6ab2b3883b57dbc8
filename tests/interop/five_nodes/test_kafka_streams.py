"""Kafka Streams with exactly_once_v2: two instances count words; one is killed, loses its state, and restores it."""

import os
import random
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tool_host import PROGRAM_FLAGS

HERE = Path(__file__).parent
APPLICATION = "words"
CHANGELOG = f"{APPLICATION}-counts-changelog"
PARTITIONS = 2
WORDS = [f"word-{number}" for number in range(20)]
SEED = 24


@pytest.fixture
def command() -> Callable[[str, Path], list[str]]:
    """Return a function that returns the command to run an instance, with its state in a directory."""
    home = Path(os.environ.get("OTTLA_KAFKA_LIBS", "")).parent
    jars = home / "ecosystem"
    if not any(jars.glob("kafka-streams-[0-9]*.jar")):
        pytest.skip("the folder beside OTTLA_KAFKA_LIBS, ecosystem, does not have Kafka Streams")
    if shutil.which("javac") is None:
        pytest.skip("no JDK (javac) on the path to compile the program with")
    run = ["java", *PROGRAM_FLAGS, "-cp", f"{jars}/*:{home}/libs/*", str(HERE / "CountWords.java")]
    return lambda bootstrap, state: [*run, bootstrap, APPLICATION, str(state)]


def send(bootstrap: str, count: int, choices: random.Random) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for _ in range(count):
        producer.produce(f"{APPLICATION}-in", choices.choice(WORDS))
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.timeout(300)
def test_each_count_is_written_once_although_an_instance_and_a_node_are_killed(
    five: Any,
    command: Callable[[str, Path], list[str]],
    start: Callable[..., "subprocess.Popen[bytes]"],
    read_committed: Callable[..., list[Any]],
    tmp_path: Path,
) -> None:
    choices = random.Random(SEED)
    for topic in ("in", "out"):
        five.create(f"{APPLICATION}-{topic}", "--partitions", str(PARTITIONS), "--replication-factor", "3")
    instances = {name: start(command(five.bootstrap, tmp_path / f"state-{name}"), name) for name in ("a", "b")}
    for name in instances:
        five.wait_for(lambda name=name: "state RUNNING" in (tmp_path / name).read_text())

    for _ in range(4):
        send(five.bootstrap, 1000, choices)
        time.sleep(1.2)  # segment.ms: the next append starts a segment, and the cleaner may clean the one before.
    five.wait_for(lambda: is_cleaned(five))
    instances["a"].kill()
    instances["a"].wait()
    shutil.rmtree(tmp_path / "state-a")
    send(five.bootstrap, 1000, choices)
    instances["a"] = start(command(five.bootstrap, tmp_path / "state-a"), "a")
    five.kill_and_restart(choices)
    send(five.bootstrap, 1000, choices)

    records = read_committed(five.bootstrap, f"{APPLICATION}-out", partitions=PARTITIONS, count=6000)
    counts: defaultdict[bytes, list[int]] = defaultdict(list)
    for record in records:
        counts[record.key()].append(int(record.value()))
    assert len(counts) == len(WORDS)
    assert all(numbers == [*range(1, len(numbers) + 1)] for numbers in counts.values())
    assert all(process.poll() is None for process in instances.values())


def is_cleaned(five: Any) -> bool:
    """Return whether a node has cleaned a partition of the changelog."""
    checkpoints = [five.data(node_id) / "cleaner-offset-checkpoint" for node_id in five.processes]
    return any(
        path.exists()
        and any(line.startswith(CHANGELOG) and not line.endswith(" 0") for line in path.read_text().splitlines())
        for path in checkpoints
    )

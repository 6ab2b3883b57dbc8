"""Kafka's jars, programs of these tests that run with them, and one JVM Kafka node for the fixture `new_node`."""

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from configured_node import format_node
from tool_host import PROGRAM_FLAGS, TOOLS

HERE = Path(__file__).parent
KAFKA_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def kafka_libs() -> Path:
    """Return the folder with Kafka's jars; skip the test if there is none."""
    libs = os.environ.get("OTTLA_KAFKA_LIBS")
    if not libs:
        pytest.skip("OTTLA_KAFKA_LIBS does not name a folder with Kafka's jars")
    return Path(libs)


def run_java(program: str, lines: Iterable[str]) -> list[str]:
    """Run a source file of this folder with Kafka's jars; return its lines on stdout for ``lines`` on stdin."""
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_libs()}/*"]
    finished = subprocess.run(
        ["java", *flags, str(HERE / program)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.splitlines()


def tool_command(name: str, *args: str) -> list[str]:
    """Return the command that runs one of Kafka's tools in a JVM of its own; skip the test if there are no jars."""
    return ["java", *PROGRAM_FLAGS, "-cp", f"{kafka_libs()}/*", TOOLS[name], *args]


def kafka_command(libs: Path, controller_port: int) -> Callable[[int, Path], list[str]]:
    """Return what formats the directory of a JVM Kafka node and returns the command that runs it."""

    def command_of(port: int, directory: Path) -> list[str]:
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        places = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "log.dirs": str(directory / "data"),
        }
        config = format_node(directory, KAFKA_SETTINGS | places)
        return ["java", *PROGRAM_FLAGS, "-Xmx384m", "-cp", f"{libs}/*", "kafka.Kafka", str(config)]

    return command_of

"""A JVM Kafka node, an Ottla node, and MirrorMaker 2 in dedicated mode, which mirrors topics in both directions."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jvm_kafka import kafka_command, kafka_libs
from tool_host import PROGRAM_FLAGS

WITHIN_S = 120
TOPICS = "orders-.*"
WORKER_SETTINGS = {
    "exactly.once.source.support": "enabled",
    # Without a scan of all classes of the class path for plugins, which takes seconds of CPU for each worker.
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    # A worker first reads its offsets to the end, where a killed one may have left an open transaction.
    "producer.transaction.timeout.ms": "10000",
}
"""Settings of Connect's workers count only with the alias of the cluster that a worker writes to as a prefix."""

MIRROR_SETTINGS = {
    "clusters": "kafka, ottla",
    "kafka->ottla.enabled": "true",
    "ottla->kafka.enabled": "true",
    "topics": TOPICS,
    "tasks.max": "2",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "true",
    # An offset sync for every record, as far as the consumer of the checkpoint task keeps up: see OffsetSyncStore.
    "offset.lag.max": "0",
    "dedicated.mode.enable.internal.rest": "true",
    "replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
    **{f"{alias}.{key}": value for alias in ("kafka", "ottla") for key, value in WORKER_SETTINGS.items()},
    **{f"{name}.topic.replication.factor": "1" for name in ("checkpoints", "heartbeats", "offset-syncs")},
    **{f"{name}.storage.replication.factor": "1" for name in ("offset", "config", "status")},
    **{
        f"{name}.interval.seconds": "1"
        for name in ("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.group.offsets", "emit.checkpoints")
    },
}


@dataclass(kw_only=True)
class MirrorMaker:
    """Both nodes by their aliases, ``kafka`` and ``ottla``, and the one process of MirrorMaker."""

    bootstraps: dict[str, str]
    command: list[str]
    output: Path
    launch: Callable[..., "subprocess.Popen[bytes]"]
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start(self) -> None:
        self.processes.append(self.launch(self.command, self.output))

    def kill(self) -> None:
        process = self.processes.pop()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait_for(self, check: Callable[[], Any]) -> Any:
        """Call ``check`` until its result is true and return that, or fail with the output of MirrorMaker."""
        deadline = time.monotonic() + WITHIN_S
        while not (result := check()):
            if time.monotonic() > deadline:
                pytest.fail(f"still {result!r} after {WITHIN_S} s: {self.output.read_text()[-8000:]}")
            time.sleep(0.1)
        return result


@pytest.fixture(scope="module")
def mirror_maker(
    new_node: Callable[..., Any],
    free_port: Callable[[], int],
    launch: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MirrorMaker]:
    """Both nodes, and MirrorMaker, which the tests start."""
    libs = kafka_libs()
    jars = libs.parent / "ecosystem"
    if not any(jars.glob("connect-mirror-[0-9]*.jar")):
        pytest.skip("the folder beside OTTLA_KAFKA_LIBS, ecosystem, does not have MirrorMaker 2")

    nodes = {"kafka": new_node(command_of=kafka_command(libs, free_port())), "ottla": new_node()}
    bootstraps = {alias: node.bootstrap for alias, node in nodes.items()}
    settings = MIRROR_SETTINGS | {f"{alias}.bootstrap.servers": address for alias, address in bootstraps.items()}
    settings["listeners"] = f"http://127.0.0.1:{free_port()}"
    directory = tmp_path_factory.mktemp("mirror-maker")
    config = directory / "mirror-maker.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    class_path = ["-cp", f"{jars}/*:{libs}/*"]
    maker = MirrorMaker(
        bootstraps=bootstraps,
        command=["java", *PROGRAM_FLAGS, *class_path, "org.apache.kafka.connect.mirror.MirrorMaker", str(config)],
        output=directory / "mirror-maker.out",
        launch=launch,
    )
    yield maker
    while maker.processes:
        maker.kill()

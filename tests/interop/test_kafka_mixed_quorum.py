"""A metadata quorum of JVM Kafka's and our controllers: either follows the other, and all write the same log.

One voter is JVM Kafka, two are ours; all were formatted by us. Whoever leads is killed until both implementations have
led; what each of them wrote is then read by kafka-dump-log.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY_IDS = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "KEXY6aqzQY-32P5TStzaFg", 3: "LEXY6aqzQY-32P5TStzaFg"}
JVM = 1
LEADER_WITHIN_S = 30
ROUNDS_MAX = 12
SEGMENT = f"__cluster_metadata-0/{0:020}.log"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class MixedQuorum:
    """Three controllers in ``directory``; node `JVM` is Kafka's."""

    def __init__(self, directory: Path, libs: Path, kafka_tool: Callable[..., Any]) -> None:
        self._directory = directory
        self._libs = libs
        self._kafka_tool = kafka_tool
        self._ports = dict(zip(DIRECTORY_IDS, free_ports(3), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for node_id in DIRECTORY_IDS:
            self._format(node_id)

    def data(self, node_id: int) -> Path:
        return self._directory / f"data-{node_id}"

    def start(self, node_id: int) -> None:
        settings = str(self._settings(node_id))
        command = [sys.executable, "-m", "ottla", "run", "-c", settings]
        if node_id == JVM:
            log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
            command = ["java", "-Xmx512m", log4j, "-cp", f"{self._libs}/*", "kafka.Kafka", settings]
        with (self._directory / f"node-{node_id}.out").open("ab") as output:
            self._processes[node_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)

    def replicas(self) -> list[dict[str, str]]:
        """Return the rows of ``describe --replication``, asked at a running node."""
        node_id = max(self._processes)
        shown = self._kafka_tool(
            "kafka-metadata-quorum",
            "--bootstrap-controller",
            f"127.0.0.1:{self._ports[node_id]}",
            "describe",
            "--replication",
            code=None,
        )
        if shown.code != 0 or not shown.rows:
            return []
        header, *rows = shown.rows
        return [dict(zip(header, row, strict=True)) for row in rows]

    def wait_for_all(self) -> int:
        """Wait until a leader has heard of everybody at the end of its log; return its node id."""
        deadline = time.monotonic() + LEADER_WITHIN_S
        rows: list[dict[str, str]] = []
        while time.monotonic() < deadline:
            rows = self.replicas()
            if len(rows) == 3 and all(int(row["Lag"]) <= 3 and row["LogEndOffset"] != "-1" for row in rows):
                return int(next(row["NodeId"] for row in rows if row["Status"] == "Leader"))
            time.sleep(0.2)
        outputs = [(self._directory / f"node-{each}.out").read_text()[-3000:] for each in DIRECTORY_IDS]
        pytest.fail("\n---\n".join([f"the quorum is not complete: {rows}", *outputs]))

    def _settings(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.properties"

    def _format(self, node_id: int) -> None:
        listener = f"CONTROLLER://127.0.0.1:{self._ports[node_id]}"
        controllers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self._settings(node_id).write_text(
            f"process.roles=controller\nnode.id={node_id}\nlisteners={listener}\nadvertised.listeners={listener}\n"
            f"controller.quorum.bootstrap.servers={controllers}\ncontroller.listener.names=CONTROLLER\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\nlog.dirs={self.data(node_id)}\n"
        )
        voters = ",".join(f"{each}@127.0.0.1:{self._ports[each]}:{DIRECTORY_IDS[each]}" for each in DIRECTORY_IDS)
        command = [sys.executable, "-m", "ottla", "format", "-t", CLUSTER_ID, "-c", str(self._settings(node_id))]
        subprocess.run([*command, "--initial-controllers", voters], check=True, capture_output=True)


@pytest.fixture
def quorum(tmp_path: Path, kafka_tool: Callable[..., Any]) -> Iterator[MixedQuorum]:
    mixed = MixedQuorum(tmp_path, Path(os.environ["OTTLA_KAFKA_LIBS"]), kafka_tool)
    yield mixed
    mixed.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_either_implementation_leads_the_other(quorum: MixedQuorum, kafka_tool: Callable[..., Any]) -> None:
    for node_id in DIRECTORY_IDS:
        quorum.start(node_id)
    leaders = [quorum.wait_for_all()]
    while not (JVM in leaders and len(set(leaders)) > 1) and len(leaders) < ROUNDS_MAX:
        quorum.kill(leaders[-1])
        time.sleep(1)
        quorum.start(leaders[-1])
        leaders.append(quorum.wait_for_all())

    assert JVM in leaders
    assert len(set(leaders)) > 1
    quorum.close()
    epochs = []
    for node_id in DIRECTORY_IDS:
        dumped = kafka_tool(
            "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(quorum.data(node_id) / SEGMENT)
        )
        assert "isvalid: false" not in dumped.stdout
        assert "Found records" not in dumped.stdout
        assert re.search(r"KRaftVoters .*" + DIRECTORY_IDS[2], dumped.stdout)
        epochs.append(re.findall(r'LeaderChange: \{"version":0,"leaderId":(\d)', dumped.stdout))
    # Each of the elections is in every log, in the same order.
    longest = max(epochs, key=len)
    assert [int(leader) for leader in longest] == leaders
    assert all(longest[: len(found)] == found for found in epochs)

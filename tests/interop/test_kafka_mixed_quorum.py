"""A metadata quorum of JVM Kafka's and our controllers: either follows the other, and all write the same log.

One voter is JVM Kafka, two are ours; all were formatted by us. The leader is killed until both implementations have
led; kafka-dump-log then reads the log of each of them.
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
from tool_host import PROGRAM_FLAGS

from node_formatting import format_directories

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY_IDS = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "KEXY6aqzQY-32P5TStzaFg", 3: "LEXY6aqzQY-32P5TStzaFg"}
JVM = 1
WITHIN_S = 60
ROUNDS_MAX = 12
SEGMENT = f"__cluster_metadata-0/{0:020}.log"


class MixedQuorum:
    """Three controllers in ``directory``; node `JVM` is Kafka's."""

    def __init__(
        self,
        directory: Path,
        libs: Path,
        kafka_tool: Callable[..., Any],
        free_port: Callable[[], int],
        launch: Callable[..., Any],
    ) -> None:
        self._directory = directory
        self._libs = libs
        self._kafka_tool = kafka_tool
        self._launch = launch
        self._ports = {node_id: free_port() for node_id in DIRECTORY_IDS}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._complaint = ""
        for node_id in DIRECTORY_IDS:
            self._format(node_id)

    def data(self, node_id: int) -> Path:
        return self._directory / f"data-{node_id}"

    def start(self, node_id: int) -> None:
        settings = str(self.settings(node_id))
        command = [sys.executable, "-m", "ottla", "run", "-c", settings]
        if node_id == JVM:
            command = ["java", *PROGRAM_FLAGS, "-Xmx512m", "-cp", f"{self._libs}/*", "kafka.Kafka", settings]
        self._processes[node_id] = self._launch(command, self._directory / f"node-{node_id}.out")

    def kill(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)

    def tool(self, name: str, *args: str, code: int | None = 0) -> Any:
        """Run one of Kafka's tools on the quorum, by way of any controller."""
        controllers = ",".join(f"127.0.0.1:{self._ports[node_id]}" for node_id in self._processes)
        return self._kafka_tool(name, "--bootstrap-controller", controllers, *args, code=code)

    def replicas(self) -> list[dict[str, str]]:
        """Return the rows of ``describe --replication``; none while there is no leader."""
        # An admin client that was started without a leader may search for one until its timeout.
        impatient = self._directory / "admin.properties"
        impatient.write_text("default.api.timeout.ms=5000\nrequest.timeout.ms=2000\n")
        config = ("--command-config", str(impatient))
        shown = self.tool("kafka-metadata-quorum", *config, "describe", "--replication", code=None)
        self._complaint = shown.stderr
        if shown.code != 0 or not shown.rows:
            return []
        header, *rows = shown.rows
        return [dict(zip(header, row, strict=True)) for row in rows]

    def leader(self) -> int:
        rows = self.wait_until(lambda rows: any(row["Status"] == "Leader" for row in rows))
        return int(next(row["NodeId"] for row in rows if row["Status"] == "Leader"))

    def wait_until(self, condition: Callable[[list[dict[str, str]]], bool]) -> list[dict[str, str]]:
        """Wait until ``condition`` holds of the replicas; return them."""
        deadline = time.monotonic() + WITHIN_S
        rows: list[dict[str, str]] = []
        while time.monotonic() < deadline:
            rows = self.replicas()
            if rows and condition(rows):
                return rows
            time.sleep(0.2)
        outputs = [(self._directory / f"node-{each}.out").read_text()[-3000:] for each in DIRECTORY_IDS]
        pytest.fail("\n---\n".join([f"it did not come to that: {rows} {self._complaint}", *outputs]))

    def upgrade_to_voters_in_the_log(self) -> None:
        """Upgrade kraft.version; voters send UpdateRaftVoter one fetch timeout after they started to follow a leader.

        Only the upgrade itself shows whether every voter has; until then it is rejected, with nothing changed.
        """
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            upgrade = self.tool("kafka-features", "upgrade", "--feature", "kraft.version=1", code=None)
            if upgrade.code == 0:
                return
            assert "has not reported its support to the leader" in upgrade.stdout, upgrade
            time.sleep(0.2)
        pytest.fail("a voter never sent its details to the leader")

    def wait_until_it_listens(self, node_id: int) -> None:
        """Wait for the listener, which Kafka opens after its replica has started to fetch."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", self._ports[node_id])) == 0:
                    return
            time.sleep(0.1)
        pytest.fail(f"node {node_id} does not listen")

    def wait_until_it_serves_tools(self, node_id: int) -> None:
        """Wait until a controller has read metadata.version: until then Kafka's rejects the requests of tools."""
        deadline = time.monotonic() + WITHIN_S
        controller = "--bootstrap-controller", f"127.0.0.1:{self._ports[node_id]}"
        while time.monotonic() < deadline:
            if self._kafka_tool("kafka-features", *controller, "describe", code=None).code == 0:
                return
            time.sleep(0.2)
        pytest.fail(f"node {node_id} does not serve tools")

    def wait_for_all(self) -> int:
        """Wait until every replica has fetched up to the end of the leader's log; return the leader's node id."""
        self.wait_until(
            lambda rows: len(rows) == 3 and all(int(row["Lag"]) <= 3 and row["LogEndOffset"] != "-1" for row in rows)
        )
        return self.leader()

    def directory_id(self, node_id: int) -> str:
        properties = (self.data(node_id) / "meta.properties").read_text()
        return next(line.split("=")[1] for line in properties.splitlines() if line.startswith("directory.id="))

    def reformat_static(self, voters: tuple[int, ...]) -> None:
        """Start over with static ``voters``; the others shall observe."""
        static = ",".join(f"{each}@127.0.0.1:{self._ports[each]}" for each in voters)
        for node_id in DIRECTORY_IDS:
            shutil.rmtree(self.data(node_id))
            settings = self.settings(node_id).read_text().splitlines()
            if node_id in voters:
                settings = [line for line in settings if "bootstrap.servers" not in line]
                settings.append(f"controller.quorum.voters={static}")
            self.settings(node_id).write_text("\n".join(settings) + "\n")
            self._run_format(node_id, *([] if node_id in voters else ["--no-initial-controllers"]))

    def settings(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.properties"

    def _format(self, node_id: int) -> None:
        listener = f"CONTROLLER://127.0.0.1:{self._ports[node_id]}"
        controllers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self.settings(node_id).write_text(
            f"process.roles=controller\nnode.id={node_id}\nlisteners={listener}\nadvertised.listeners={listener}\n"
            f"controller.quorum.bootstrap.servers={controllers}\ncontroller.listener.names=CONTROLLER\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\nlog.dirs={self.data(node_id)}\n"
        )
        voters = ",".join(f"{each}@127.0.0.1:{self._ports[each]}:{DIRECTORY_IDS[each]}" for each in DIRECTORY_IDS)
        self._run_format(node_id, "--initial-controllers", voters)

    def _run_format(self, node_id: int, *args: str) -> None:
        format_directories(self.settings(node_id), CLUSTER_ID, *args)


@pytest.fixture
def quorum(
    tmp_path: Path, kafka_tool: Callable[..., Any], free_port: Callable[[], int], launch: Callable[..., Any]
) -> Iterator[MixedQuorum]:
    mixed = MixedQuorum(tmp_path, Path(os.environ["OTTLA_KAFKA_LIBS"]), kafka_tool, free_port, launch)
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


def test_static_voters_move_into_the_log_and_kafka_s_controller_joins_them(
    quorum: MixedQuorum, kafka_tool: Callable[..., Any]
) -> None:
    quorum.reformat_static(voters=(2, 3))
    for node_id in DIRECTORY_IDS:
        quorum.start(node_id)
    quorum.wait_until_it_listens(JVM)
    quorum.wait_until(lambda rows: [row["Status"] for row in rows if row["NodeId"] == str(JVM)] == ["Observer"])
    quorum.wait_until_it_serves_tools(JVM)

    quorum.upgrade_to_voters_in_the_log()
    quorum.wait_until(lambda rows: all(row["Lag"] == "0" for row in rows))
    quorum.tool("kafka-metadata-quorum", "--command-config", str(quorum.settings(JVM)), "add-controller")

    quorum.wait_until(lambda rows: len([row for row in rows if row["Status"] != "Observer"]) == 3)
    leader = quorum.leader()
    quorum.tool(
        "kafka-metadata-quorum",
        "remove-controller",
        "--controller-id",
        str(leader),
        "--controller-directory-id",
        quorum.directory_id(leader),
    )
    quorum.wait_until(lambda rows: len([row for row in rows if row["Status"] != "Observer"]) == 2)
    assert quorum.leader() != leader

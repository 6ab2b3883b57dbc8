"""Nodes as processes: a cluster starts, is found again by the next command, and stops without leftovers.

The program here is a stand-in for the ottla command: it formats and serves HTTP, and misbehaves on request.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla_operator.adapters.local import host as local
from ottla_operator.adapters.local.host import PORT_ANNOTATION, LocalHost
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.controllers.cluster.reconcile import reconcile_cluster
from ottla_operator.controllers.result import ReconcileResult
from ottla_operator.errors import HostError
from ottla_operator.model.conditions import Reached, Rejected, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.ports.nodes import NodeState, ObservedNode

Document = dict[str, Any]
Builder = Callable[..., Document]

PROGRAM = """
import http.server, os, pathlib, signal, sys, time

def properties(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)

def format(arguments):
    config = properties(arguments[arguments.index("-c") + 1])
    if "unknown.key" in config:
        sys.exit("Unknown configuration 'unknown.key'.")
    if "only.first" in config:
        if config["node.id"] == "0":
            sys.exit("refused")
        time.sleep(0.5)
    data = pathlib.Path(config["log.dirs"])
    data.mkdir(exist_ok=True)
    (data / "meta.properties").write_text("cluster.id=" + arguments[arguments.index("-t") + 1])

def run(arguments):
    config = properties(arguments[arguments.index("--config") + 1])
    if "die" in config:
        print("first line"); sys.exit("the disk is on fire")
    print("revision", config.get("num.partitions"), flush=True)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            is_ready = self.path == "/healthz" or "never.ready" not in config
            self.send_response(200 if is_ready else 503)
            self.end_headers()
            self.wfile.write(b"" if is_ready else config["never.ready"].encode())

        def log_message(self, *_):
            pass

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    host, port = config["ottla.admin.listener"].rsplit(":", 1)
    http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()

{"format": format, "run": run}[sys.argv[1]](sys.argv[2:])
"""


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state")


@pytest.fixture
def host(tmp_path: Path, directory: StateDirectory) -> Iterator[LocalHost]:
    result = another_command(tmp_path, directory)
    yield result
    for name in directory.node_names():
        asyncio.run(result.stop_node(name))


def another_command(tmp_path: Path, directory: StateDirectory) -> LocalHost:
    program = tmp_path / "ottla.py"
    program.write_text(PROGRAM)
    return LocalHost(directory, (sys.executable, str(program)))


@pytest.fixture
def cluster(cluster_manifest: Builder, brokers: Any, free_ports: Callable[..., int]) -> Callable[..., Cluster]:
    port = free_ports()

    def build(**config: str) -> Cluster:
        manifest = cluster_manifest(config={key.replace("_", "."): text for key, text in config.items()})
        manifest["metadata"]["annotations"] = {PORT_ANNOTATION: str(port)}
        manifest["status"] = {"clusterId": brokers.cluster_id}
        return Cluster.parse(manifest)

    return build


def settle(cluster: Cluster, host: LocalHost, brokers: Any) -> ReconcileResult:
    """Reconcile until the cluster does not wait any more."""

    async def run() -> ReconcileResult:
        while True:
            result = await reconcile_cluster(cluster, host, brokers.connect)
            if not isinstance(result.readiness, Waiting):
                return result
            await asyncio.sleep(0.01)

    return asyncio.run(run())


def look(host: LocalHost, cluster: Cluster) -> Mapping[str, ObservedNode]:
    async def observe() -> Mapping[str, ObservedNode]:
        return (await host.observe(await host.desired(cluster))).nodes

    return asyncio.run(observe())


def pid(host: LocalHost) -> int:
    process = host.process("demo-main-0")
    assert process is not None
    assert process.is_running
    return process.pid


def test_cluster_comes_up(
    host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    result = settle(cluster(), host, brokers)

    assert isinstance(result.readiness, Reached)
    assert result.facts["readyNodes"] == 1
    data = directory.node_directory("demo-main-0") / "data"
    assert (data / "meta.properties").read_text() == f"cluster.id={brokers.cluster_id}"


def test_next_command_finds_it_and_changes_nothing(
    tmp_path: Path, host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)
    before = pid(host)

    result = settle(cluster(), another_command(tmp_path, directory), brokers)

    assert isinstance(result.readiness, Reached)
    assert pid(host) == before


def test_new_configuration_restarts_the_node(
    host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(num_partitions="1"), host, brokers)
    before = pid(host)

    settle(cluster(num_partitions="2"), host, brokers)

    assert pid(host) != before
    log = (directory.node_directory("demo-main-0") / "node.log").read_text()
    assert log.splitlines() == ["revision 1", "revision 2"]


def test_invalid_configuration_is_rejected_and_the_node_keeps_running(
    host: LocalHost, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)
    before = pid(host)

    result = settle(cluster(unknown_key="1"), host, brokers)

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.reason == "FormatFailed"
    assert "Unknown configuration 'unknown.key'." in result.readiness.message
    assert pid(host) == before


def test_rejection_of_one_node_leaves_no_other_half_formatted(
    host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster]
) -> None:
    (pool,) = cluster().pools
    three = replace(cluster(only_first="1"), pools=(replace(pool, nodes=3),))

    async def publish() -> None:
        desired = await host.desired(three)
        with pytest.raises(HostError, match="refused"):
            await host.publish(desired, (await host.observe(desired)).outdated)
        for name in ("demo-main-1", "demo-main-2"):
            assert (directory.node_directory(name) / "server.properties").is_file(), "it was waited for"

    asyncio.run(publish())


def test_error_of_a_node_that_ends_at_once_has_its_last_output(
    host: LocalHost, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    result = settle(cluster(die="1"), host, brokers)

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.reason == "NodeExited"
    assert "first line | the disk is on fire" in result.readiness.message


def test_node_that_was_killed_is_started_again(
    tmp_path: Path, host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)
    before = pid(host)
    os.kill(before, signal.SIGKILL)
    os.waitpid(before, 0)

    result = settle(cluster(), another_command(tmp_path, directory), brokers)

    assert isinstance(result.readiness, Reached)
    assert pid(host) != before


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param('{"ready": false, "reasons": ["no leader", "fenced"]}', "no leader; fenced", id="reasons"),
        pytest.param('{"ready": false, "reasons": []}', '{"ready": false, "reasons": []}', id="no-reasons"),
        pytest.param("just words", "just words", id="not-json"),
        pytest.param("[]", "[]", id="other-json"),
        pytest.param("", "HTTP status 503", id="empty"),
    ],
)
def test_node_that_is_not_ready_says_why(
    host: LocalHost, cluster: Callable[..., Cluster], brokers: Any, body: str, why: str
) -> None:
    result = asyncio.run(reconcile_cluster(cluster(never_ready=body), host, brokers.connect))

    assert result.readiness == Waiting("NodeNotReady", f"node demo-main-0: {why}")


@pytest.mark.parametrize(
    ("body", "state"),
    [
        pytest.param('{"ready": false, "reasons": [], "hasServed": false}', NodeState.STARTING, id="comes-up"),
        pytest.param('{"ready": false, "reasons": [], "hasServed": true}', NodeState.UNREADY, id="has-served"),
        pytest.param("just words", NodeState.STARTING, id="not-json"),
    ],
)
def test_node_that_is_not_ready_may_have_been(
    host: LocalHost, cluster: Callable[..., Cluster], brokers: Any, body: str, state: NodeState
) -> None:
    asyncio.run(reconcile_cluster(cluster(never_ready=body), host, brokers.connect))

    assert look(host, cluster())["demo-main-0"].state is state


def test_hanging_node_counts_as_unready(
    host: LocalHost, cluster: Callable[..., Cluster], brokers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(cluster(), host, brokers)
    monkeypatch.setattr(local, "_PROBE_TIMEOUT_S", 0.1)
    os.kill(pid(host), signal.SIGSTOP)
    try:
        seen = look(host, cluster())["demo-main-0"]
    finally:
        os.kill(pid(host), signal.SIGCONT)

    assert (seen.state, seen.message) == (NodeState.UNREADY, "it does not respond yet")


def test_removed_node_is_not_observed_and_keeps_its_data(
    tmp_path: Path, host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)

    asyncio.run(host.remove_node("demo-main-0", ""))
    asyncio.run(host.remove_node("demo-main-0", ""))

    assert look(host, cluster()) == {}
    assert (directory.node_directory("demo-main-0") / "data" / "meta.properties").exists()
    assert isinstance(settle(cluster(), another_command(tmp_path, directory), brokers).readiness, Reached)


def test_stopped_node_is_still_observed(host: LocalHost, cluster: Callable[..., Cluster], brokers: Any) -> None:
    settle(cluster(), host, brokers)

    asyncio.run(host.stop_node("demo-main-0"))

    assert look(host, cluster())["demo-main-0"].state is NodeState.STOPPED


def test_port_in_use_is_named(host: LocalHost, cluster: Callable[..., Cluster], brokers: Any) -> None:
    demo = cluster()
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(demo.annotations[PORT_ANNOTATION])))
        other.listen()
        result = settle(demo, host, brokers)

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.reason == "PortInUse"
    assert f"port {demo.annotations[PORT_ANNOTATION]} is taken" in result.readiness.message


def test_stopped_node_leaves_its_data(
    host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)

    asyncio.run(host.stop_node("demo-main-0"))

    assert host.process("demo-main-0") is None
    assert (directory.node_directory("demo-main-0") / "data" / "meta.properties").exists()


def test_lost_data_directory_is_formatted_again(
    host: LocalHost, directory: StateDirectory, cluster: Callable[..., Cluster], brokers: Any
) -> None:
    settle(cluster(), host, brokers)
    asyncio.run(host.stop_node("demo-main-0"))
    (directory.node_directory("demo-main-0") / "data" / "meta.properties").unlink()
    host._started.clear()

    assert isinstance(settle(cluster(), host, brokers).readiness, Reached)


def test_stopping_a_stopped_node_is_no_error(host: LocalHost, directory: StateDirectory) -> None:
    folder = directory.node_directory("demo-main-0")
    folder.mkdir(parents=True)

    asyncio.run(host.stop_node("demo-main-0"))

    assert list(folder.iterdir()) == []


def test_reused_process_id_is_not_the_node(host: LocalHost, directory: StateDirectory) -> None:
    folder = directory.node_directory("demo-main-0")
    folder.mkdir(parents=True)
    record = {"pid": os.getpid(), "born": "another time", "revision": "r", "admin_port": 1}
    (folder / "process.json").write_text(json.dumps(record))

    process = host.process("demo-main-0")

    assert process is not None
    assert not process.is_running
    asyncio.run(host.stop_node("demo-main-0"))


def test_corrupt_process_record_is_named(host: LocalHost, directory: StateDirectory) -> None:
    folder = directory.node_directory("demo-main-0")
    folder.mkdir(parents=True)
    (folder / "process.json").write_text("{}")

    with pytest.raises(HostError, match=r"process\.json is corrupt"):
        host.process("demo-main-0")
    (folder / "process.json").unlink()


@pytest.mark.parametrize("port", ["0", "65526", "-1", "http", ""])
def test_invalid_port_annotation_is_rejected(
    host: LocalHost, cluster_manifest: Builder, port: str, brokers: Any
) -> None:
    manifest = cluster_manifest()
    manifest["metadata"]["annotations"] = {PORT_ANNOTATION: port}

    result = asyncio.run(reconcile_cluster(Cluster.parse(manifest), host, brokers.connect))

    assert isinstance(result.readiness, Rejected)
    assert result.readiness.reason == "InvalidPort"


def test_error_names_node_ids_that_leave_no_port(host: LocalHost, cluster_manifest: Builder) -> None:
    high = Cluster.parse(cluster_manifest(firstNodeId=9_999))

    with pytest.raises(HostError, match="the node ids go up to 9999; on a local host they go up to 6552") as raised:
        asyncio.run(host.desired(high))

    assert raised.value.reason == "InvalidPort"


def test_last_port_annotation_that_fits(host: LocalHost, cluster_manifest: Builder) -> None:
    manifest = cluster_manifest()
    manifest["metadata"]["annotations"] = {PORT_ANNOTATION: "65525"}

    desired = asyncio.run(host.desired(Cluster.parse(manifest)))

    assert desired.nodes[0].place.admin_port == 65_527
    assert desired.nodes[0].place.client_host == "localhost"


def test_observation_before_anything_is_there(host: LocalHost, cluster: Callable[..., Cluster]) -> None:
    async def look() -> tuple[tuple[str, ...], dict[str, NodeState]]:
        seen = await host.observe(await host.desired(cluster()))
        return seen.outdated, {name: node.state for name, node in seen.nodes.items()}

    assert asyncio.run(look()) == (("server.properties of demo-main-0",), {})

"""``kubectl ottla`` with a double of kubectl, whose port-forward leads to a real node."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kubernetes.main import main

NAME = "demo"
POD = "demo-main-0.demo-nodes.default.svc"
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},C://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{pod}:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,C:PLAINTEXT
controller.listener.names=C
log.dirs={directory}/data
ottla.admin.listener=127.0.0.1:{admin}
"""


class Server:
    """The folder of the double's API server, and its recorded command lines."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, resource: str, document: dict[str, Any]) -> None:
        folder = self.root / resource
        folder.mkdir(exist_ok=True, parents=True)
        (folder / f"{document['metadata']['name']}.json").write_text(json.dumps(document))

    def object(self, resource: str, name: str) -> Any:
        return json.loads((self.root / resource / f"{name}.json").read_text())

    def secret(self, name: str, **entries: str) -> None:
        data = {key.replace("_", "."): base64.b64encode(text.encode()).decode() for key, text in entries.items()}
        self.put("secret", {"metadata": {"name": name}, "data": data})

    @property
    def said(self) -> list[list[str]]:
        """The command lines so far."""
        file = self.root / "said"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []

    @property
    def forwarders(self) -> list[int]:
        """The processes that have forwarded, by their ids."""
        return [int(line) for line in (self.root / "forwarders").read_text().splitlines()]

    def forwards(self) -> list[str]:
        """The targets of forwards, in order."""
        return [words[-2] for words in self.said if "port-forward" in words]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return an API server with a Cluster of two nodes, and put its kubectl first in the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    kubectl = programs / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("kubectl_double.py")} "$@"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    result = Server(tmp_path / "server")
    monkeypatch.setenv("KUBECTL_DOUBLE", str(result.root))
    for resource in ("pods", "statefulsets", "topics.ottla.dev", "users.ottla.dev"):
        (result.root / resource).mkdir(parents=True)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "2 of 2 nodes are ready"}
    status = {"bootstrapServers": "demo-bootstrap.default.svc:9092", "conditions": [ready], "image": "ottla/broker:1"}
    spec = {"image": "ottla/broker:1", "pools": [{"name": "main", "nodes": 2}]}
    result.put(
        "clusters.ottla.dev", {"metadata": {"name": NAME, "namespace": "default"}, "spec": spec, "status": status}
    )
    template = {"metadata": {"annotations": {"ottla.dev/revision": "a"}}}
    result.put("statefulsets", {"metadata": {"name": "demo-main"}, "spec": {"template": template}})
    for number in range(2):
        result.put("pods", pod(f"demo-main-{number}"))
    return result


def pod(name: str, *, revision: str = "a", image: str = "ottla/broker:1") -> dict[str, Any]:
    annotations = {"ottla.dev/revision": revision, "ottla.dev/rack": "zone-1"}
    return {
        "metadata": {"name": name, "uid": f"first {name}", "annotations": annotations},
        "spec": {"containers": [{"image": image}], "nodeName": "node-1"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"restartCount": 2}]},
    }


@pytest.fixture
def kubectl_ottla(server: Server, runner: Callable[..., Any]) -> Any:
    """Return a function that runs a command line of the plugin: code, stdout and stderr."""
    return runner(main)


@pytest.fixture(scope="module")
def far_node(
    tmp_path_factory: pytest.TempPathFactory,
    free_port: Callable[[], int],
    running: Callable[..., AbstractContextManager[str]],
) -> Iterator[str]:
    """Run a node that advertises a pod's name, and return its true address."""
    directory = tmp_path_factory.mktemp("node")
    port, controller, admin = free_port(), free_port(), free_port()
    file = directory / "server.properties"
    file.write_text(PROPERTIES.format(port=port, controller=controller, admin=admin, pod=POD, directory=directory))
    identity = ("-t", "MkU3OEVBNTcwNTJENDM2Qk", "--standalone")
    subprocess.run([sys.executable, "-m", "ottla", "format", "-c", str(file), *identity], check=True)
    with running("run", "-c", str(file), ready="is ready"):
        yield f"127.0.0.1:{port}"


@pytest.fixture
def forwarded(server: Server, far_node: str) -> Server:
    """Let the double forward to `far_node`."""
    addresses = server.root / "addresses"
    addresses.mkdir()
    for target in ("service-demo-bootstrap", "pod-demo-main-0"):
        (addresses / target).write_text(far_node)
    return server

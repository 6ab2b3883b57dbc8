"""A real Kubernetes for the end-to-end tests: kubectl and helm, one operator, and a namespace per module.

The tests need KUBECONFIG and the images ottla/operator:0.1.0, ottla/broker:0.1.0 and ottla/spark:dev on every node;
`tests/e2e/run` sees to both.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "ottla-system"
OPERATOR_RELEASE = "ottla"
COMMAND_TIMEOUT_S = 240
CLIENT_POD = "client"

Document = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))
            if not os.environ.get("KUBECONFIG"):
                item.add_marker(pytest.mark.skip(reason="needs a Kubernetes: set KUBECONFIG, or run `make e2e`"))


class CommandFailedError(AssertionError):
    """A command ended with another exit code than 0; the message has all of its words."""


def run(*command: str, text: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run a command from the repository's root and return its output.

    Raises:
        CommandFailedError: it failed.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Namespace:
    """One namespace, by kubectl."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, text=text)

    def apply(self, *documents: Document) -> str:
        return self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    def apply_file(self, path: str) -> str:
        return self.kubectl("apply", "-f", path)

    def get(self, kind: str, name: str) -> Document:
        document: Document = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return document

    def names(self, kind: str, selector: str = "") -> set[str]:
        selection = ["-l", selector] if selector else []
        return set(self.kubectl("get", kind, "-o", "name", *selection).split())

    def wait_for(self, condition: str, *objects: str, timeout_s: int = 180) -> None:
        """Wait until a condition such as ``condition=Ready`` holds; say how the objects are if it does not."""
        try:
            self.kubectl("wait", f"--for={condition}", f"--timeout={timeout_s}s", *objects)
        except CommandFailedError as error:
            raise CommandFailedError(f"{error}\n{self._state()}") from None

    def wait_ready(self, *objects: str) -> None:
        self.wait_for("condition=Ready", *objects)

    def condition(self, kind: str, name: str, condition_type: str = "Ready") -> Mapping[str, str]:
        found: list[Mapping[str, str]] = self.get(kind, name)["status"]["conditions"]
        return next(it for it in found if it["type"] == condition_type)

    def start_client(self) -> None:
        """Start a pod that has the ottla command and nothing to do with any cluster."""
        container = {
            "name": "client",
            "image": "ottla/broker:0.1.0",
            "command": ["python", "-c", "import signal; signal.pause()"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": CLIENT_POD}, "spec": spec})
        self.wait_ready(f"pod/{CLIENT_POD}")

    def ottla(self, *arguments: str, text: str | None = None) -> str:
        """Run the ottla command in the client pod, with ``text`` as its input, and return its output."""
        return self.kubectl("exec", "-i", CLIENT_POD, "--", "ottla", *arguments, text=text or "")

    def _state(self) -> str:
        parts = [
            self.kubectl("get", "ottla,statefulsets,pods,pvc", "-o", "wide"),
            self.kubectl("get", "clusters.ottla.dev,topics.ottla.dev,users.ottla.dev", "-o", "yaml"),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp"),
            self.kubectl("logs", "-l", "ottla.dev/cluster", "--all-containers", "--tail=30", "--prefix"),
            run("kubectl", "-n", OPERATOR_NAMESPACE, "logs", f"deployment/{OPERATOR_RELEASE}", "--tail=50"),
        ]
        return "\n".join(parts)


class Operator:
    """The operator, installed from its chart as a user would."""

    def install(self) -> None:
        run(
            *("helm", "upgrade", "--install", OPERATOR_RELEASE, "charts/ottla-operator"),
            *("--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout=120s"),
        )

    def uninstall(self) -> None:
        run("helm", "uninstall", OPERATOR_RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")

    def restart(self) -> None:
        run("kubectl", "-n", OPERATOR_NAMESPACE, "rollout", "restart", f"deployment/{OPERATOR_RELEASE}")
        run("kubectl", "-n", OPERATOR_NAMESPACE, "rollout", "status", f"deployment/{OPERATOR_RELEASE}")

    def logs(self) -> str:
        return run("kubectl", "-n", OPERATOR_NAMESPACE, "logs", f"deployment/{OPERATOR_RELEASE}", "--tail=-1")


@pytest.fixture
def helm() -> Callable[..., str]:
    """Run helm from the repository's root."""
    return lambda *arguments: run("helm", *arguments)


@pytest.fixture(scope="session")
def operator() -> Iterator[Operator]:
    """The installed operator; removed at the end."""
    installed = Operator()
    installed.install()
    yield installed
    installed.uninstall()


@pytest.fixture(scope="module")
def namespace(operator: Operator) -> Iterator[Namespace]:
    """A namespace of the module's own that enforces the restricted Pod Security Standard; removed at the end."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    run("kubectl", "create", "-f", "-", text=yaml.safe_dump(manifest))
    yield Namespace(name)
    # Waiting here is a test of its own: no finalizer may keep a namespace from going.
    run("kubectl", "delete", "namespace", name, "--timeout=120s")

"""A namespace of the Kubernetes under test: manifests, waits, pods, and the ottla command in a pod."""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from api_objects import api_objects
from kubernetes.dynamic.exceptions import DynamicApiError

from ottla.cli.yaml_form import to_yaml

ROOT = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "ottla-system"
OPERATOR_RELEASE = "ottla"
OPERATOR_LABEL = f"app.kubernetes.io/instance={OPERATOR_RELEASE}"
"""Label of its pods: one leads, the others are on standby."""
COMMAND_TIMEOUT_S = 240
CLIENT_POD = "client"
BINDING = "/bindings/kafka"
"""The path at which pods mount the Secret of a User."""
BOOTSTRAP = "demo-bootstrap:9092"
"""Bootstrap address of the cluster `demo` for clients without TLS."""

Document = dict[str, Any]


class CommandFailedError(AssertionError):
    """A command ended with another exit code than 0; the message has its output."""


def run(*command: str, text: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run a command from the repository's root and return its output.

    Raises:
        CommandFailedError: the command failed.
    """
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Namespace:
    """A namespace: read by the official client, changed by kubectl, as users do it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kubectl(self, *arguments: str, text: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, text=text, timeout_s=timeout_s)

    def plugin(self, *arguments: str, text: str | None = None) -> str:
        """Run ``kubectl ottla``, as kubectl runs its plugin from the folder of these tests' Python."""
        command = str(Path(sys.executable).with_name("kubectl-ottla"))
        return run(command, "--namespace", self.name, *arguments, text=text)

    def apply(self, *documents: Document) -> str:
        return self.kubectl("apply", "-f", "-", text="---\n".join(map(to_yaml, documents)))

    def declare(self, kind: str, name: str, **spec: Any) -> None:
        """Apply a Cluster, or a Topic or User of the cluster `demo`."""
        reference = {} if kind == "Cluster" else {"clusterRef": {"name": "demo"}}
        self.apply(
            {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": {**reference, **spec}}
        )

    def apply_file(self, path: str) -> str:
        return self.kubectl("apply", "-f", path)

    def get(self, kind: str, name: str) -> Document:
        try:
            return api_objects().get(kind, self.name, name)
        except DynamicApiError as error:
            raise CommandFailedError(f"{kind} {name} of {self.name}: {error.summary()}") from None

    def names(self, kind: str, selector: str = "") -> set[str]:
        selection = ["-l", selector] if selector else []
        return set(self.kubectl("get", kind, "-o", "name", *selection).split())

    def wait_for(self, condition: str, *objects: str, timeout_s: int = 180) -> None:
        """Wait until a condition such as ``condition=Ready`` holds; on failure report the state of all objects."""
        try:
            waiting = ("wait", f"--for={condition}", f"--timeout={timeout_s}s", *objects)
            self.kubectl(*waiting, timeout_s=timeout_s + COMMAND_TIMEOUT_S)
        except CommandFailedError as error:
            raise CommandFailedError(f"{error}\n{self._state()}") from None

    def wait_ready(self, *objects: str) -> None:
        self.wait_for("condition=Ready", *objects)

    def condition(self, kind: str, name: str, condition_type: str = "Ready") -> Mapping[str, str]:
        found: list[Mapping[str, str]] = self.get(kind, name)["status"]["conditions"]
        return next(it for it in found if it["type"] == condition_type)

    def events(self, kind: str, name: str, reason: str) -> list[str]:
        """Return the notes of an object's events of one reason, in order of time."""
        regarding = {"kind": kind, "name": name}
        found = [
            it for it in self._all_events() if it["reason"] == reason and regarding.items() <= it["regarding"].items()
        ]
        return [it["note"] for it in sorted(found, key=lambda it: it["eventTime"])]

    def events_of_controllers(self) -> set[str]:
        """Return the names of all events but those of kubelets, whose probes are late on a busy machine."""
        return {it["metadata"]["name"] for it in self._all_events() if it.get("reportingController") != "kubelet"}

    def _all_events(self) -> list[Document]:
        return api_objects().list("events.events.k8s.io", self.name)

    def change(self, kind: str, name: str, patch: Document) -> None:
        """Merge ``patch`` into an object, and wait until the operator has observed this generation."""
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))
        generation = self.get(kind, name)["metadata"]["generation"]
        self.wait_for(f"jsonpath={{.status.observedGeneration}}={generation}", f"{kind}/{name}")

    def eventually(self, claim: Callable[[], object], what: str, timeout_s: float = 180) -> None:
        """Wait until ``claim()`` holds; on failure report ``what`` and the state of all objects."""
        deadline_s = time.monotonic() + timeout_s
        while not claim():
            assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s\n{self._state()}"
            time.sleep(0.5)

    def pods(self, cluster: str = "demo") -> dict[str, Document]:
        """Return the pods of a cluster by name."""
        found = api_objects().list("pods", self.name, f"ottla.dev/cluster={cluster}")
        return {pod["metadata"]["name"]: pod for pod in found}

    def lives(self, cluster: str = "demo") -> dict[str, tuple[str, int]]:
        """Return, by pod of a cluster, its uid and how often its container was restarted."""
        return {
            name: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for name, pod in self.pods(cluster).items()
        }

    def uids(self, cluster: str = "demo") -> dict[str, str]:
        """Return the uid of each pod of a cluster; it may not have started yet."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(cluster).items()}

    def machine(self, pod: str) -> str:
        """Return the Kubernetes node of a pod."""
        name: str = self.get("pod", pod)["spec"]["nodeName"]
        return name

    def drain(self, machine: str, *options: str) -> None:
        """Drain a Kubernetes node; ``kubectl uncordon`` reverses that."""
        self.kubectl(
            *("drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s", *options),
        )

    def secret(self, name: str) -> dict[str, str]:
        """Return the entries of a Secret, decoded."""
        data = self.get("secret", name)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def start_pod(
        self,
        name: str,
        *command: str,
        image: str = "ottla/broker:0.1.0",
        mount: tuple[str, Document] | None = None,
        restart_policy: str = "Never",
    ) -> None:
        """Start a pod of one container that Pod Security `restricted` admits.

        ``mount`` is a path and its volume; the ottla command reads its connection settings there.
        """
        container: Document = {
            "name": "client",
            "image": image,
            "command": command,
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec: Document = {
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        if mount is not None:
            path, volume = mount
            spec["volumes"] = [{"name": "files", **volume}]
            container["volumeMounts"] = [{"name": "files", "mountPath": path, "readOnly": True}]
            container["env"] = [{"name": "OTTLA_COMMAND_CONFIG", "value": f"{path}/client.properties"}]
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def start_bound(self, name: str, user: str, script: str) -> None:
        """Start a pod that mounts the Secret of a User at the path of service bindings, and runs ``script`` once."""
        self.start_pod(name, "sh", "-c", script, mount=(BINDING, {"secret": {"secretName": user}}))

    def finish(self, pod: str, phase: str = "Succeeded") -> str:
        """Wait until the pod has ended, in ``phase``, and return its log."""
        self.wait_for(f"jsonpath={{.status.phase}}={phase}", f"pod/{pod}")
        return self.kubectl("logs", pod)

    def stop(self, pod: str) -> str:
        """End the script of a running pod; return its log."""
        phase = self.get("pod", pod)["status"]["phase"]
        assert phase == "Running", f"{pod}: {self.kubectl('logs', pod)}"
        self.kubectl("exec", pod, "--", "touch", "/tmp/stop")
        return self.finish(pod)

    def start_client(self) -> None:
        """Start a pod that has the ottla command and belongs to no cluster."""
        self.start_pod(CLIENT_POD, "python", "-c", "import signal; signal.pause()", restart_policy="Always")
        self.wait_ready(f"pod/{CLIENT_POD}")

    def ottla(self, *arguments: str, text: str | None = None) -> str:
        """Run the ottla command in the client pod, with ``text`` as its input, and return its output."""
        return self.kubectl("exec", "-i", CLIENT_POD, "--", "ottla", *arguments, text=text or "")

    def ask(self, *arguments: str) -> Any:
        """Run the ottla command against the cluster `demo`, and return its JSON output."""
        return json.loads(self.ottla(*arguments, "-b", BOOTSTRAP, "-o", "json"))

    def partitions(self, topic: str) -> list[Document]:
        """Return the description of each partition of a topic by brokers of `demo`."""
        found: list[Document] = self.ask("topic", "describe", topic)["partitions"]
        return found

    def _state(self) -> str:
        here, system = ("kubectl", "--namespace", self.name), ("kubectl", "--namespace", OPERATOR_NAMESPACE)
        # A container that has not started has no logs, which is no reason to leave out those of the others.
        logs = ("logs", "--ignore-errors", "--prefix")
        return "\n".join(
            output_of(*command)
            for command in (
                (*here, "get", "ottla,statefulsets,pods,pvc", "-o", "wide"),
                (*here, "get", "clusters.ottla.dev,topics.ottla.dev,users.ottla.dev", "-o", "yaml"),
                (*here, "get", "events", "--sort-by=.lastTimestamp"),
                (*here, *logs, "-l", "ottla.dev/cluster", "--all-containers", "--tail=30"),
                (*system, *logs, "-l", OPERATOR_LABEL, "--tail=50"),
            )
        )


def output_of(*command: str) -> str:
    """Return the output of a command, or its failure: it is run for the report of another failure."""
    try:
        return run(*command)
    except (CommandFailedError, subprocess.TimeoutExpired) as error:
        return str(error)

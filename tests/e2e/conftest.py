"""A real Kubernetes for the end-to-end tests: kubectl and helm, one operator, and a namespace per module.

The tests need KUBECONFIG and the images ottla/operator:0.1.0, ottla/broker:0.1.0 and ottla/spark:dev on every node;
`tests/e2e/run` sees to both.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from ottla.cli.yaml_form import to_yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "ottla-operator"
OPERATOR_NAMESPACE = "ottla-system"
OPERATOR_RELEASE = "ottla"
OPERATOR_LABEL = f"app.kubernetes.io/instance={OPERATOR_RELEASE}"
"""Of its pods: one leads, the others stand by."""
COMMAND_TIMEOUT_S = 240
ON_ONE_MACHINE = frozenset({"rancher.io/local-path", "k8s.io/minikube-hostpath", "kubernetes.io/no-provisioner"})
"""Provisioners of volumes that are folders or disks of one machine."""
CLIENT_POD = "client"
BINDING = "/bindings/kafka"
"""Where pods mount the Secret of a User."""
BOOTSTRAP = "demo-bootstrap:9092"
"""Where clients of the cluster `demo` begin that come in without TLS."""

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

    def kubectl(self, *arguments: str, text: str | None = None, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        return run("kubectl", "--namespace", self.name, *arguments, text=text, timeout_s=timeout_s)

    def plugin(self, *arguments: str, text: str | None = None) -> str:
        """Run ``kubectl ottla``, as kubectl does when its plugin is where these tests' Python is."""
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
        document: Document = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return document

    def names(self, kind: str, selector: str = "") -> set[str]:
        selection = ["-l", selector] if selector else []
        return set(self.kubectl("get", kind, "-o", "name", *selection).split())

    def wait_for(self, condition: str, *objects: str, timeout_s: int = 180) -> None:
        """Wait until a condition such as ``condition=Ready`` holds; say how the objects are if it does not."""
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
        """Return what an object's events of one reason say, in the order in which it happened."""
        listed: list[Document] = json.loads(self.kubectl("get", "events.events.k8s.io", "-o", "json"))["items"]
        regarding = {"kind": kind, "name": name}
        found = [it for it in listed if it["reason"] == reason and regarding.items() <= it["regarding"].items()]
        return [it["note"] for it in sorted(found, key=lambda it: it["eventTime"])]

    def change(self, kind: str, name: str, patch: Document) -> None:
        """Merge ``patch`` into an object, and wait until the operator has begun to look at it as it is now."""
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))
        generation = self.get(kind, name)["metadata"]["generation"]
        self.wait_for(f"jsonpath={{.status.observedGeneration}}={generation}", f"{kind}/{name}")

    def eventually(self, claim: Callable[[], object], what: str, timeout_s: float = 180) -> None:
        """Wait until ``claim()`` holds; say ``what`` did not, and how everything is, if it does not."""
        deadline_s = time.monotonic() + timeout_s
        while not claim():
            assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s} s\n{self._state()}"
            time.sleep(0.5)

    def pods(self, cluster: str = "demo") -> dict[str, Document]:
        """Return the pods of a cluster by name."""
        found = json.loads(self.kubectl("get", "pods", "-l", f"ottla.dev/cluster={cluster}", "-o", "json"))
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

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
        """Return the machine that a pod is on."""
        name: str = self.get("pod", pod)["spec"]["nodeName"]
        return name

    def drain(self, machine: str, *options: str) -> None:
        """Have the pods of a machine evicted; ``kubectl uncordon`` gives it back."""
        self.kubectl(
            *("drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s", *options),
        )

    def secret(self, name: str) -> dict[str, str]:
        """Return what a Secret holds, decoded."""
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
        """Start a pod of one container, as Pod Security `restricted` wants it.

        ``mount`` is a path and the volume that is there; the ottla command finds the way to brokers in it.
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
        """Start a pod that mounts the Secret of a User where applications look for one, and runs ``script`` once."""
        self.start_pod(name, "sh", "-c", script, mount=(BINDING, {"secret": {"secretName": user}}))

    def finish(self, pod: str, phase: str = "Succeeded") -> str:
        """Wait until the pod has come to its end, well or as ``phase`` says, and return what it said."""
        self.wait_for(f"jsonpath={{.status.phase}}={phase}", f"pod/{pod}")
        return self.kubectl("logs", pod)

    def stop(self, pod: str) -> str:
        """Let the pod's script come to its end, which it has not reached before; return what it said."""
        phase = self.get("pod", pod)["status"]["phase"]
        assert phase == "Running", f"{pod}: {self.kubectl('logs', pod)}"
        self.kubectl("exec", pod, "--", "touch", "/tmp/stop")
        return self.finish(pod)

    def start_client(self) -> None:
        """Start a pod that has the ottla command and nothing to do with any cluster."""
        self.start_pod(CLIENT_POD, "python", "-c", "import signal; signal.pause()", restart_policy="Always")
        self.wait_ready(f"pod/{CLIENT_POD}")

    def ottla(self, *arguments: str, text: str | None = None) -> str:
        """Run the ottla command in the client pod, with ``text`` as its input, and return its output."""
        return self.kubectl("exec", "-i", CLIENT_POD, "--", "ottla", *arguments, text=text or "")

    def ask(self, *arguments: str) -> Any:
        """Run the ottla command against the cluster `demo`, and return its JSON output."""
        return json.loads(self.ottla(*arguments, "-b", BOOTSTRAP, "-o", "json"))

    def partitions(self, topic: str) -> list[Document]:
        """Return what brokers of `demo` say of each partition of a topic."""
        found: list[Document] = self.ask("topic", "describe", topic)["partitions"]
        return found

    def _state(self) -> str:
        here, system = ("kubectl", "--namespace", self.name), ("kubectl", "--namespace", OPERATOR_NAMESPACE)
        # A container that has not started has no logs, which is no reason to leave out those of the others.
        logs = ("logs", "--ignore-errors", "--prefix")
        return "\n".join(
            _words_of(*command)
            for command in (
                (*here, "get", "ottla,statefulsets,pods,pvc", "-o", "wide"),
                (*here, "get", "clusters.ottla.dev,topics.ottla.dev,users.ottla.dev", "-o", "yaml"),
                (*here, "get", "events", "--sort-by=.lastTimestamp"),
                (*here, *logs, "-l", "ottla.dev/cluster", "--all-containers", "--tail=30"),
                (*system, *logs, "-l", OPERATOR_LABEL, "--tail=50"),
            )
        )


def _words_of(*command: str) -> str:
    """Return what a command says, also where it fails: it is asked because something else has failed."""
    try:
        return run(*command)
    except (CommandFailedError, subprocess.TimeoutExpired) as error:
        return str(error)


class PodWatch:
    """Every change of a cluster's pods while it is entered: who was deleted, and how many were down at a time."""

    def __init__(self, namespace: Namespace, cluster: str = "demo") -> None:
        self.deleted: list[str] = []
        """Names, in the order in which they were asked to end."""
        self.down_most: int = 0
        """How many of those that were there at the beginning were ever not ready at the same time."""
        self.history: list[tuple[float, str, str]] = []
        """Each change of those that were there at the beginning: seconds, pod, and what became of it."""
        self._expected = set(namespace.pods(cluster))
        self._ready: set[str] = set()
        self._command = [
            *("kubectl", "--namespace", namespace.name, "get", "pods", "-l", f"ottla.dev/cluster={cluster}"),
            *("--watch", "--output-watch-events", "-o", "json"),
        ]
        self._listed = threading.Event()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        if not self._listed.wait(30):
            self._end()
            pytest.fail(f"not all of {sorted(self._expected)} are ready when the watch of them begins")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Watch events arrive within a moment.
        time.sleep(1)
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._thread.join()
        self._process.communicate()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._take(event["type"], event["object"])

    def _take(self, kind: str, pod: Document) -> None:
        name, is_ending = pod["metadata"]["name"], bool(pod["metadata"].get("deletionTimestamp"))
        conditions = {it["type"]: it["status"] for it in pod.get("status", {}).get("conditions", [])}
        is_ready = kind != "DELETED" and not is_ending and conditions.get("Ready") == "True"
        if self._listed.is_set() and name in self._expected and is_ready != (name in self._ready):
            became = "ready" if is_ready else "deleted" if is_ending else "not ready"
            self.history.append((round(time.monotonic(), 1), name, became))
        if is_ready:
            self._ready.add(name)
        else:
            if is_ending and name in self._ready:
                self.deleted.append(name)
            self._ready.discard(name)
        if self._ready >= self._expected:
            self._listed.set()
        if self._listed.is_set():
            self.down_most = max(self.down_most, len(self._expected - self._ready))


class Ledger:
    """A pod that sends numbers to a topic at a steady pace and reads them along; see tests/ledger.

    With ``user`` it connects with the Secret of that User, as it is when the pod starts.
    """

    def __init__(self, namespace: Namespace, topic: str, user: str | None = None) -> None:
        self.namespace = namespace
        self.topic = topic
        self.name = uuid.uuid4().hex[:8]
        self.pod = f"ledger-{self.name}"
        self._user = user

    def start(self) -> None:
        script = (ROOT / "tests/ledger/ledger_client.py").read_text(encoding="utf-8")
        where, mount = BOOTSTRAP, None
        if self._user is not None:
            where, mount = f"{BINDING}/librdkafka.json", (BINDING, {"secret": {"secretName": self._user}})
        command = ("python3", "-c", script, where, self.topic, self.name)
        self.namespace.start_pod(self.pod, *command, image="ottla/spark:dev", mount=mount)
        self.namespace.wait_ready(f"pod/{self.pod}")

    def check(self) -> Document:
        """Stop it, and compare its records with the topic: none lost, duplicated, unread or rejected."""
        said: Document = json.loads(self.namespace.stop(self.pod))
        self.namespace.kubectl("delete", "pod", self.pod)
        print(f"ledger of {self.topic}: {said['acknowledged']} records, at most {said['stall_s']} s without an answer")
        if said["sent_twice"]:
            print(f"the client sent these twice, by its own account: {said['sent_twice']}")
        assert said["acknowledged"] > 0
        assert not {name: said[name] for name in ("lost", "doubled", "unread", "failed", "errors") if said[name]}
        return said


class Operator:
    """The operator, installed from its chart as a user would."""

    system = Namespace(OPERATOR_NAMESPACE)

    def install(self, *settings: str, chart: Path = CHART) -> None:
        """Install or upgrade it; ``settings`` are of the form ``image.tag=1``."""
        run(
            *("helm", "upgrade", "--install", OPERATOR_RELEASE, str(chart)),
            *("--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout=120s"),
            # For Clusters with racks.
            *("--set", ",".join(("rbac.nodes=true", *settings))),
        )

    def pods(self) -> dict[str, Document]:
        """Return those that are not about to end, by name."""
        found: list[Document] = json.loads(self.system.kubectl("get", "pods", "-l", OPERATOR_LABEL, "-o", "json"))[
            "items"
        ]
        return {it["metadata"]["name"]: it for it in found if "deletionTimestamp" not in it["metadata"]}

    def leader(self) -> str:
        """Return the leader's pod; empty without a leader."""
        holder: str = self.system.get("lease", OPERATOR_RELEASE)["spec"].get("holderIdentity", "")
        return holder.rpartition("_")[0]

    def uninstall(self) -> None:
        run("helm", "uninstall", OPERATOR_RELEASE, "--namespace", OPERATOR_NAMESPACE, "--wait")

    def restart(self) -> None:
        """Replace its pods, and wait until one of the new ones leads."""
        before = set(self.pods())
        self.system.kubectl("rollout", "restart", f"deployment/{OPERATOR_RELEASE}")
        self.wait_rolled_out()
        self.system.eventually(lambda: self.leader() in set(self.pods()) - before, "one of the new operators leads")

    def wait_rolled_out(self) -> None:
        self.system.kubectl("rollout", "status", f"deployment/{OPERATOR_RELEASE}", "--timeout=200s")

    def kill(self) -> None:
        """End all of its processes at once, without a word to them; others follow."""
        self.system.kubectl("delete", "pods", "-l", OPERATOR_LABEL, "--grace-period=0", "--force")

    def logs(self) -> str:
        return self.system.kubectl("logs", "-l", OPERATOR_LABEL, "--tail=-1", "--prefix")


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


@pytest.fixture
def own_release(operator: Operator) -> Iterator[None]:
    """Leave the operator as it was installed, however the test ends."""
    yield
    operator.install()


def default_storage_class() -> Document:
    """Return the StorageClass of claims that name none."""
    found: list[Document] = json.loads(run("kubectl", "get", "storageclasses", "-o", "json"))["items"]
    mark = "storageclass.kubernetes.io/is-default-class"
    return next(it for it in found if it["metadata"].get("annotations", {}).get(mark) == "true")


@pytest.fixture
def growing_volumes() -> None:
    """Volumes that can grow, which those of kind cannot."""
    if not default_storage_class().get("allowVolumeExpansion"):
        pytest.skip("needs a default StorageClass whose volumes can grow")


@pytest.fixture
def travelling_volumes() -> None:
    """Volumes that follow their pod to another machine, which those of kind do not: they are its folders."""
    provisioner = default_storage_class()["provisioner"]
    if provisioner in ON_ONE_MACHINE:
        pytest.skip(f"needs a default StorageClass whose volumes follow their pods; those of {provisioner} do not")


@pytest.fixture
def ledger() -> Callable[..., Ledger]:
    """Start a ledger of a topic in a namespace, of a User if one is named; its `check` ends it."""

    def start(namespace: Namespace, topic: str, user: str | None = None) -> Ledger:
        started = Ledger(namespace, topic, user)
        started.start()
        return started

    return start


@pytest.fixture
def watch_pods() -> Callable[..., contextlib.AbstractContextManager[PodWatch]]:
    """Return what watches a cluster's pods while it is entered."""
    return PodWatch


@pytest.fixture(scope="session")
def leaving(operator: Operator) -> Iterator[dict[str, str]]:
    """Namespaces under deletion, with the module of each; they are deleted while other tests run.

    The end of the session waits for all of them, which is a test of its own: no finalizer may keep a namespace.
    """
    modules: dict[str, str] = {}
    yield modules
    for name, module in modules.items():
        try:
            run("kubectl", "wait", "--for=delete", f"namespace/{name}", "--timeout=120s")
        except CommandFailedError as error:
            pytest.fail(
                f"the namespace of {module} stays: {error}\n{_words_of('kubectl', 'get', 'ns', name, '-o', 'yaml')}"
            )


@contextlib.contextmanager
def restricted_namespace(module: str, leaving: dict[str, str]) -> Iterator[Namespace]:
    """A new namespace that enforces the restricted Pod Security Standard, and is ``leaving`` at the end."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    run("kubectl", "create", "-f", "-", text=to_yaml(manifest))
    yield Namespace(name)
    run("kubectl", "delete", "namespace", name, "--ignore-not-found", "--wait=false")
    leaving[name] = module


@pytest.fixture(scope="module")
def namespace(request: pytest.FixtureRequest, leaving: dict[str, str]) -> Iterator[Namespace]:
    """A namespace of the module's own, beside an operator."""
    with restricted_namespace(request.node.name, leaving) as made:
        yield made


@pytest.fixture(scope="module")
def other_namespace(request: pytest.FixtureRequest, leaving: dict[str, str]) -> Iterator[Namespace]:
    """Another namespace next to the module's own."""
    with restricted_namespace(request.node.name, leaving) as made:
        yield made

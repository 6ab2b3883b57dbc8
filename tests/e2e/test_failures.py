"""Failures on a real Kubernetes: of Kubernetes nodes, disks, images and operators; no acknowledged record is lost."""

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes_namespace import Namespace

pytestmark = pytest.mark.alone

Document = dict[str, Any]
POOL: Document = {"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}
MACHINE_LOST_S = 240
"""Longer than Kubernetes takes to give a machine up."""


class Tried:
    """The cluster `demo` of three nodes that are both, and its topic `ledger`."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def voters(self) -> dict[int, str]:
        """Return the directories of the voters by node id."""
        replicas = self.namespace.ask("quorum", "describe")["replicas"]
        return {it["nodeId"]: it["directoryId"] for it in replicas if it["role"] != "observer"}

    def lagging(self) -> list[Document]:
        """Return the partitions of the ledger that lack a replica in sync."""
        return [it for it in self.namespace.partitions("ledger") if len(it["isr"]) < 3]

    def wait_whole(self, *pods: str) -> None:
        """Wait until the named pods were replaced, every node serves, and every partition is on all of them."""
        for name in pods:
            self.namespace.wait_for("create", f"pod/{name}")
        self.namespace.wait_ready(*(f"pod/{name}" for name in self.namespace.pods()))
        self.namespace.eventually(
            lambda: self.namespace.condition("cluster.ottla.dev", "demo")["status"] == "True" and not self.lagging(),
            "the cluster is whole again",
            timeout_s=MACHINE_LOST_S,
        )


@pytest.fixture(scope="module")
def tried(namespace: Any) -> Tried:
    namespace.declare("Cluster", "demo", pools=[POOL])
    namespace.declare("Topic", "ledger", partitions=6, replicationFactor=3, config={"min.insync.replicas": "2"})
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/ledger")
    return Tried(namespace)


@pytest.fixture
def book(tried: Tried, ledger: Callable[..., Any]) -> Iterator[Any]:
    """A ledger that runs during the test; it is checked when the test has passed."""
    kept = ledger(tried.namespace, "ledger")
    yield kept
    kept.check()


@pytest.fixture
def machine_without_clients(tried: Tried, book: Any) -> tuple[str, str]:
    """A node's pod and its Kubernetes node, which runs no client of the tests."""
    machine_of = tried.namespace.machine
    taken = {machine_of(pod) for pod in (book.pod, "client")}
    found = {name: machine for name in tried.namespace.pods() if (machine := machine_of(name)) not in taken}
    if not found:
        pytest.skip("every machine runs a client of the tests")
    return max(found.items())


def test_lost_disk_is_replicated_again_and_its_controller_votes_again(tried: Tried, book: Any) -> None:
    before, lives = tried.voters(), tried.namespace.lives()
    tried.namespace.kubectl("delete", "pvc", "data-demo-main-1", "--wait=false")
    tried.namespace.kubectl("delete", "pod", "demo-main-1", "--force", "--grace-period=0")
    tried.namespace.eventually(lambda: tried.voters().get(1, before[1]) != before[1], "node 1 votes with its new disk")
    tried.wait_whole("demo-main-1")

    after = tried.voters()
    assert after.keys() == before.keys()
    assert [after[node] for node in (0, 2)] == [before[node] for node in (0, 2)]
    assert [tried.namespace.lives()[f"demo-main-{node}"] == lives[f"demo-main-{node}"] for node in range(3)] == [
        True,
        False,
        True,
    ], "nobody else was restarted"


@pytest.mark.usefixtures("travelling_volumes")
def test_drained_machine_takes_one_node_down_and_it_comes_up_elsewhere(
    tried: Tried, machine_without_clients: tuple[str, str], watch_pods: Callable[..., Any]
) -> None:
    name, machine = machine_without_clients
    with watch_pods(tried.namespace) as watch:
        tried.namespace.drain(machine)
        try:
            tried.wait_whole(name)
            assert tried.namespace.machine(name) != machine
        finally:
            tried.namespace.kubectl("uncordon", machine)

    assert watch.deleted == [name]
    assert watch.down_most == 1, watch.history


def test_all_records_survive_a_kill_of_all_nodes_at_once(tried: Tried, book: Any) -> None:
    names = sorted(tried.namespace.pods())
    before = tried.namespace.lives()
    tried.namespace.kubectl("delete", "pods", *names, "--force", "--grace-period=0")
    tried.wait_whole(*names)

    after = tried.namespace.lives()
    assert all(after[name][0] != before[name][0] for name in names)


def undo(namespace: Any) -> None:
    namespace.plugin("undo", "--yes")


def put_back(namespace: Any) -> None:
    namespace.change("cluster.ottla.dev", "demo", {"spec": {"pools": [POOL]}})


@pytest.mark.parametrize(
    ("spec", "words", "go_back"),
    [
        pytest.param({"image": "ottla/broker:none"}, ("ImagePull", "kubectl ottla undo"), undo, id="no-such-image"),
        pytest.param(
            {"pools": [{**POOL, "resources": {"requests": {"memory": "900Ti"}}}]},
            ("Unschedulable", "Insufficient memory", "put back what was changed"),
            put_back,
            id="no-capacity",
        ),
    ],
)
def test_pod_that_cannot_start_halts_the_roll_at_one_node(
    tried: Tried,
    book: Any,
    watch_pods: Callable[..., Any],
    spec: Document,
    words: tuple[str, ...],
    go_back: Callable[[Any], None],
) -> None:
    before = tried.namespace.lives()
    with watch_pods(tried.namespace) as watch:
        tried.namespace.change("cluster.ottla.dev", "demo", {"spec": spec})
        tried.namespace.eventually(
            lambda: tried.namespace.condition("cluster.ottla.dev", "demo")["reason"] == "RollHalted",
            "the roll is halted",
        )
        said = tried.namespace.condition("cluster.ottla.dev", "demo")
        (victim,) = set(watch.deleted)
        go_back(tried.namespace)
        tried.namespace.wait_ready("cluster.ottla.dev/demo")
        tried.wait_whole()

    assert said["status"] == "False"
    assert victim in said["message"]
    assert all(it in said["message"] for it in words), said["message"]
    assert set(watch.deleted) == {victim}
    assert watch.down_most == 1, watch.history
    after = tried.namespace.lives()
    assert {name for name in before if after[name] != before[name]} == {victim}


STOP = """
import os, signal, sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        groups, command = (open(f"/proc/{pid}/{name}").read() for name in ("cgroup", "cmdline"))
    except OSError:
        continue
    if sys.argv[1] in groups.replace("_", "-") and "ottla" in command:
        os.kill(int(pid), signal.SIGSTOP)
        print(pid)
"""


def freeze(pod: Document) -> None:
    """Stop the processes of a pod from another one on its Kubernetes node, as nothing inside of the pod can."""
    container = {
        "name": "stop",
        "image": "ottla/broker:0.1.0",
        "command": ["python", "-c", STOP, pod["metadata"]["uid"]],
    }
    container |= {"securityContext": {"privileged": True, "runAsUser": 0}}
    spec = {"hostPID": True, "nodeName": pod["spec"]["nodeName"], "restartPolicy": "Never", "containers": [container]}
    system = Namespace("kube-system")
    system.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "freeze"}, "spec": spec})
    try:
        assert system.finish("freeze").split(), "a process was stopped"
    finally:
        system.kubectl("delete", "pod", "freeze", "--ignore-not-found")


def test_frozen_broker_is_restarted_soon(tried: Tried, book: Any) -> None:
    name, pod = max(tried.namespace.pods().items())
    before = tried.namespace.lives()
    freeze(pod)
    tried.namespace.eventually(lambda: tried.namespace.lives()[name] != before[name], "it is restarted", timeout_s=90)
    tried.wait_whole()

    after = tried.namespace.lives()
    assert {other for other in before if after[other] != before[other]} == {name}


@pytest.mark.skipif("OTTLA_E2E_MACHINE" not in os.environ, reason="needs a command that ends and starts machines")
def test_lost_kubernetes_node_returns_with_its_broker(
    tried: Tried, machine_without_clients: tuple[str, str], watch_pods: Callable[..., Any]
) -> None:
    name, machine = machine_without_clients
    command = os.environ["OTTLA_E2E_MACHINE"]
    before = tried.namespace.lives()
    subprocess.run((command, "kill", machine), check=True, timeout=60)
    try:
        tried.namespace.wait_for("condition=Ready=False", "cluster.ottla.dev/demo", timeout_s=MACHINE_LOST_S)
        tried.namespace.eventually(lambda: len(tried.lagging()) == 6, "brokers do without the node")
    finally:
        subprocess.run((command, "start", machine), check=True, timeout=60)
    tried.namespace.wait_for("condition=Ready", f"node/{machine}", timeout_s=120)
    tried.wait_whole(name)

    after = tried.namespace.lives()
    assert {other for other in before if after[other] != before[other]} <= {name}

"""Restarts on Kubernetes under load: one pod at a time, nothing lost, and preferred leaders afterwards.

Also that a change of the operator alone restarts no pod.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = pytest.mark.alone

Document = dict[str, Any]
PARTITIONS = 6
PODS = {"demo-main-0", "demo-main-1", "demo-main-2"}
IMAGE = "ottla/broker:0.1.0"
SAME_IMAGE = f"docker.io/{IMAGE}"
"""By another name: what another release would change, as far as a roll is concerned."""


class Rolled:
    """The cluster `demo` of three nodes that are both, in the module's namespace."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def add_topic(self, name: str) -> None:
        config = {"min.insync.replicas": "2"}
        self.namespace.declare("Topic", name, partitions=PARTITIONS, replicationFactor=3, config=config)
        self.namespace.wait_ready(f"topic.ottla.dev/{name}")

    def configure(self, **config: str | None) -> None:
        """Change or remove configs in the spec; return when the operator has observed it."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        self.namespace.change("cluster.ottla.dev", "demo", {"spec": {"config": named}})

    def wait_settled(self, *pods: str) -> None:
        self.namespace.wait_ready("cluster.ottla.dev/demo", *(f"pod/{name}" for name in pods))

    def restarts(self) -> list[str]:
        """Return the notes of the Cluster's restart events, in order."""
        said: list[str] = self.namespace.events("Cluster", "demo", "RestartNode")
        return said

    def revisions(self) -> set[str]:
        return {pod["metadata"]["annotations"]["ottla.dev/revision"] for pod in self.namespace.pods().values()}

    def leaders_away(self, topic: str) -> list[Document]:
        """Return the partitions without their preferred leader, or with a replica out of sync."""
        return [
            it
            for it in self.namespace.partitions(topic)
            if it["leader"] != it["replicas"][0] or sorted(it["isr"]) != sorted(it["replicas"])
        ]


@pytest.fixture(scope="module")
def rolled(namespace: Any) -> Rolled:
    namespace.declare("Cluster", "demo", pools=[{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}])
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo")
    return Rolled(namespace)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"config": {"num.partitions": "2"}}, "config num.partitions", id="config"),
        pytest.param({"image": SAME_IMAGE}, f"image {IMAGE} -> {SAME_IMAGE}", id="image"),
    ],
)
def test_roll_under_load_loses_nothing(
    rolled: Rolled, ledger: Callable[..., Any], watch_pods: Callable[..., Any], spec: Document, reason: str
) -> None:
    rolled.add_topic("rolling")
    before, restarts, book = rolled.namespace.lives(), rolled.restarts(), ledger(rolled.namespace, "rolling")
    active = rolled.namespace.ask("quorum", "describe")["leaderId"]
    with watch_pods(rolled.namespace) as watch:
        rolled.namespace.change("cluster.ottla.dev", "demo", {"spec": spec})
        rolled.wait_settled()
    book.check()

    assert sorted(watch.deleted) == sorted(PODS), "each pod was restarted, once"
    assert watch.deleted[-1] == f"demo-main-{active}", "the active controller is the last one"
    assert watch.down_most == 1, watch.history
    after = rolled.namespace.lives()
    assert all(after[name][0] != before[name][0] for name in PODS)
    assert {restarts for _, restarts in after.values()} == {0}, "no container ended by itself"
    assert rolled.leaders_away("rolling") == []
    assert rolled.restarts()[len(restarts) :] == [f"restart node {name}: {reason}" for name in watch.deleted]


def test_roll_resumes_after_the_operator_is_killed(
    rolled: Rolled, operator: Any, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    rolled.add_topic("orphaned")
    book = ledger(rolled.namespace, "orphaned")
    with watch_pods(rolled.namespace) as watch, ThreadPoolExecutor() as threads:
        roll = threads.submit(rolled.namespace.plugin, "roll")
        rolled.namespace.eventually(lambda: watch.deleted, "a first pod is restarted")
        operator.kill()
        roll.result()
        rolled.wait_settled()
    book.check()

    assert sorted(watch.deleted) == sorted(PODS), "nobody was restarted twice"
    assert watch.down_most == 1, watch.history
    assert rolled.leaders_away("orphaned") == []


def test_paused_roll_continues_when_it_is_resumed(rolled: Rolled, watch_pods: Callable[..., Any]) -> None:
    with watch_pods(rolled.namespace) as watch:
        rolled.namespace.plugin("roll", "--no-wait")
        rolled.namespace.eventually(lambda: watch.deleted, "a first pod is restarted")
        rolled.namespace.plugin("pause")
        rolled.namespace.wait_for("condition=Paused", "cluster.ottla.dev/demo")
        (first,) = watch.deleted
        rolled.namespace.eventually(lambda: watch.history[-1][1:] == (first, "ready"), "the first one serves again")
        # Brokers serve, and the time is longer than the operator needs for the next restart.
        rolled.namespace.plugin("topic", "create", "made-by-hand", "--partitions=2", "--replication-factor=3")
        made = rolled.namespace.plugin("topic", "list", "-o", "name").split()
        assert watch.deleted == [first]
        rolled.namespace.plugin("resume")
        rolled.namespace.eventually(lambda: len(watch.deleted) == len(PODS), "the others are restarted, too")
        rolled.wait_settled()

    assert "topic/made-by-hand" in made
    assert sorted(watch.deleted) == sorted(PODS), "nobody was restarted twice"
    assert rolled.namespace.condition("cluster.ottla.dev", "demo", "Paused")["status"] == "False"


def test_reverted_change_restarts_only_the_nodes_that_have_it(rolled: Rolled, watch_pods: Callable[..., Any]) -> None:
    before, config = rolled.revisions(), rolled.namespace.get("cluster.ottla.dev", "demo")["spec"].get("config", {})
    with watch_pods(rolled.namespace) as watch:
        rolled.configure(num_partitions="4")
        rolled.namespace.eventually(lambda: rolled.revisions() - before, "a first pod has the new configuration")
        rolled.configure(num_partitions=config.get("num.partitions"))
        rolled.wait_settled()

    assert len({name for _, name, _ in watch.history}) == 1, watch.history
    assert rolled.revisions() == before


@pytest.mark.usefixtures("own_release")
def test_operator_of_another_release_changes_no_pod(
    rolled: Rolled, operator: Any, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    namespace = rolled.namespace
    image = namespace.get("cluster.ottla.dev", "demo")["status"]["image"]
    namespace.change("cluster.ottla.dev", "demo", {"spec": {"image": image}})
    rolled.add_topic("upgraded")
    namespace.declare("User", "alice", authentication={"type": "scram-sha-512"})
    namespace.wait_ready("user.ottla.dev/alice", "cluster.ottla.dev/demo")
    objects = [("cluster.ottla.dev", "demo"), ("topic.ottla.dev", "upgraded"), ("user.ottla.dev", "alice")]

    def state() -> list[Any]:
        sets = json.loads(namespace.kubectl("get", "statefulsets", "-o", "json"))["items"]
        revisions = [
            (it["metadata"]["uid"], it["metadata"]["generation"], it["status"]["updateRevision"]) for it in sets
        ]
        return [namespace.lives(), revisions, *(namespace.condition(*it)["lastTransitionTime"] for it in objects)]

    before, predecessors, book = state(), set(operator.pods()), ledger(namespace, "upgraded")
    with watch_pods(namespace) as watch:
        # Other tags of the same images, as another release has.
        operator.install("image.registry=docker.io", "brokerImage.registry=docker.io")
        successors = operator.pods()
        namespace.eventually(lambda: operator.leader() in successors, "one of the new operators leads")
        # A dynamic config, which needs no restart.
        rolled.configure(log_retention_ms="86400000")
        rolled.wait_settled()
        rolled.add_topic("made-by-the-new-one")
    book.check()

    assert predecessors.isdisjoint(successors)
    assert state() == before
    assert watch.history == []

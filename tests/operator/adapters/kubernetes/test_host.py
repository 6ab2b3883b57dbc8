"""Nodes as pods: outdated objects, node states, and the cluster id on volumes."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from host_observations import observe, publish

from ottla_operator.adapters.kubernetes.host import KubernetesHost
from ottla_operator.adapters.kubernetes.pod_state import observed_node
from ottla_operator.errors import HostError
from ottla_operator.model.listeners import PLAINTEXT
from ottla_operator.model.manifest import Cluster
from ottla_operator.planning.cluster.draining import leaving_nodes
from ottla_operator.planning.cluster.plan import plan_cluster
from ottla_operator.planning.steps.cluster import Publish
from ottla_operator.ports.nodes import NodeState

Document = dict[str, Any]
Builder = Callable[..., Document]


class FakeStore:
    """Objects by kind and name; an apply stores its document with the fields that a server adds."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], Document] = {}
        self.applied: list[str] = []
        self.deleted: list[str] = []

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        return self.stored.get((kind, name))

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        key, _, value = labels.partition("=")
        return [
            it for (its, _), it in self.stored.items() if its == kind and it["metadata"]["labels"].get(key) == value
        ]

    async def create(self, document: Document) -> Document:
        raise NotImplementedError("a cluster's objects are applied")

    async def apply(self, document: Document) -> Document:
        key = (document["kind"], document["metadata"]["name"])
        self.applied.append("/".join(key))
        self.stored[key] = {**copy.deepcopy(document), "status": {"added": "by the server"}}
        return self.stored[key]

    async def dry_run_create(self, document: Document) -> None:
        """Admit everything."""

    async def warnings_about(self, document: Document) -> list[Document]:
        return []

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None:
        self.deleted.append(f"{kind}/{name} {uid}".rstrip())

    def add_pod(self, name: str = "demo-main-0", **metadata: Any) -> Document:
        pod = {"kind": "Pod", "metadata": {"name": name, "labels": {"ottla.dev/cluster": "demo"}, **metadata}}
        self.stored["Pod", name] = pod
        return pod

    def add_claim(self, name: str, cluster_id: str | None) -> None:
        annotations = {"ottla.dev/cluster-id": cluster_id} if cluster_id else {}
        metadata = {"name": name, "labels": {"ottla.dev/cluster": "demo"}, "annotations": annotations}
        spec = {"resources": {"requests": {"storage": "1Gi"}}}
        self.stored["PersistentVolumeClaim", name] = {
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": spec,
        }


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def host(store: FakeStore) -> KubernetesHost:
    return KubernetesHost(store, "kafka", "ottla/broker:default")


@pytest.fixture
def cluster(cluster_manifest: Builder) -> Cluster:
    manifest = cluster_manifest()
    manifest["metadata"].update({"namespace": "kafka", "uid": "u-1"})
    return Cluster.parse(manifest)


EVERYTHING = (
    "ServiceAccount/demo-nodes",
    "Service/demo-nodes",
    "Service/demo-bootstrap",
    "ConfigMap/demo-main",
    "StatefulSet/demo-main",
)


def test_everything_of_a_new_cluster_is_published(host: KubernetesHost, store: FakeStore, cluster: Cluster) -> None:
    _, seen = observe(host, cluster)
    publish(host, cluster)

    assert seen.outdated == EVERYTHING
    assert tuple(store.applied) == EVERYTHING


@pytest.mark.parametrize(
    ("spec", "version"),
    [({"version": "0.2.0"}, "0.2.0"), ({}, None), ({"image": "mine:0.2.0"}, None)],
    ids=["release", "default-that-is-none", "image-of-somebody-else"],
)
def test_version_that_means_the_image_is_known(
    host: KubernetesHost, cluster_manifest: Any, spec: dict[str, str], version: str | None
) -> None:
    desired = asyncio.run(host.desired(Cluster.parse(cluster_manifest(spec=spec))))

    assert desired.version == version


def test_objects_as_desired_are_not_written_again(host: KubernetesHost, cluster: Cluster) -> None:
    publish(host, cluster)

    assert observe(host, cluster)[1].outdated == ()


def test_only_changed_objects_are_repaired(host: KubernetesHost, store: FakeStore, cluster: Cluster) -> None:
    publish(host, cluster)
    store.stored["Service", "demo-bootstrap"]["spec"]["ports"][0]["port"] = 9999
    del store.stored["ConfigMap", "demo-main"]
    store.applied.clear()

    publish(host, cluster)

    assert store.applied == ["Service/demo-bootstrap", "ConfigMap/demo-main"]


def test_missing_pod_is_left_to_the_stateful_set(host: KubernetesHost, cluster: Cluster) -> None:
    publish(host, cluster)
    desired, seen = observe(host, cluster)

    assert seen.nodes["demo-main-0"].reason == "PodMissing"
    assert plan_cluster(desired, seen).steps == ()


def test_missing_pod_of_a_leaving_node_is_observed(host: KubernetesHost, cluster: Cluster) -> None:
    """The quorum may need its vote before any broker responds: an evicted pod must not shrink its StatefulSet."""
    cluster = replace(cluster, known_initial_controllers=())
    name = f"demo-main-{len(observe(host, cluster)[0].nodes)}"
    desired = asyncio.run(host.desired(cluster, [name]))
    asyncio.run(host.publish(desired, EVERYTHING))

    _, seen = observe(host, cluster)

    assert seen.nodes[name].reason == "PodMissing"
    assert leaving_nodes(cluster, seen.nodes, None) == (name,)


def test_new_cluster_is_only_published(host: KubernetesHost, cluster: Cluster) -> None:
    desired, seen = observe(host, cluster)

    assert plan_cluster(desired, seen).steps == (Publish(desired, EVERYTHING),)


def test_restart_and_stop_delete_the_observed_pod(host: KubernetesHost, store: FakeStore, cluster: Cluster) -> None:
    publish(host, cluster)
    store.add_pod("demo-main-0", uid="p-0")
    desired, seen = observe(host, cluster)

    asyncio.run(host.restart_node(desired.nodes[0], seen.nodes["demo-main-0"].uid))
    asyncio.run(host.remove_node("demo-main-1", "p-1"))

    assert store.deleted == ["Pod/demo-main-0 p-0", "Pod/demo-main-1 p-1"]


def test_only_the_stateful_set_starts_pods(host: KubernetesHost, cluster: Cluster) -> None:
    desired, _ = observe(host, cluster)

    with pytest.raises(HostError):
        asyncio.run(host.start_node(desired.nodes[0]))


def test_bootstrap_address_is_the_bootstrap_service(host: KubernetesHost, cluster: Cluster) -> None:
    assert host.bootstrap_servers(observe(host, cluster)[0], PLAINTEXT) == "demo-bootstrap.kafka.svc:9092"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], "derived", id="no-volumes"),
        pytest.param([None], "derived", id="volume-without-an-id"),
        pytest.param(["old"], "old", id="volume-of-an-earlier-cluster"),
        pytest.param(["old", "old"], "old", id="two-volumes-of-one-cluster"),
    ],
)
def test_cluster_id_of_the_volumes_is_adopted(
    host: KubernetesHost, store: FakeStore, cluster: Cluster, claims: list[str | None], expected: str
) -> None:
    for number, cluster_id in enumerate(claims):
        store.add_claim(f"data-demo-main-{number}", cluster_id)

    desired, _ = observe(host, cluster)

    assert desired.cluster.cluster_id == (cluster.cluster_id if expected == "derived" else expected)


def test_volumes_of_two_clusters_are_rejected(host: KubernetesHost, store: FakeStore, cluster: Cluster) -> None:
    store.add_claim("data-demo-main-0", "one")
    store.add_claim("data-demo-main-1", "two")

    with pytest.raises(HostError, match="carry the ids one, two"):
        observe(host, cluster)


@pytest.mark.parametrize(
    ("image", "runs"), [(None, "ottla/broker:default"), ("mine:1", "mine:1")], ids=["default", "own"]
)
def test_image_of_the_spec_wins(
    host: KubernetesHost, store: FakeStore, cluster_manifest: Builder, image: str | None, runs: str
) -> None:
    manifest = cluster_manifest()
    manifest["metadata"].update({"namespace": "kafka", "uid": "u-1"})
    if image:
        manifest["spec"]["image"] = image
    publish(host, Cluster.parse(manifest))

    pod = store.stored["StatefulSet", "demo-main"]["spec"]["template"]["spec"]
    assert {container["image"] for container in [*pod["initContainers"], *pod["containers"]]} == {runs}


def pod_with(**status: Any) -> Document:
    return {
        "metadata": {"name": "demo-main-0", "annotations": {"ottla.dev/revision": "r"}},
        "status": status,
    }


def waiting(reason: str, message: str = "", last: str = "") -> Document:
    return {
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"message": last}} if last else {},
    }


@pytest.mark.parametrize(
    ("pod", "state", "reason", "message"),
    [
        pytest.param(pod_with(conditions=[{"type": "Ready", "status": "True"}]), NodeState.READY, "", "", id="ready"),
        pytest.param(
            pod_with(conditions=[{"type": "Ready", "status": "False"}]),
            NodeState.STARTING,
            "NodeNotReady",
            "its pod is not ready yet",
            id="not-ready",
        ),
        pytest.param(
            pod_with(
                conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
                containerStatuses=[{"state": {"running": {"startedAt": "2026-01-01T00:00:10Z"}}}],
            ),
            NodeState.STARTING,
            "NodeNotReady",
            "its pod is not ready yet",
            id="not-ready-since-before-its-container-started",
        ),
        pytest.param(
            pod_with(
                conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:11Z"}],
                containerStatuses=[{"state": {"running": {"startedAt": "2026-01-01T00:00:10Z"}}}],
            ),
            NodeState.UNREADY,
            "NodeNotReady",
            "its pod is not ready yet",
            id="was-ready",
        ),
        pytest.param(
            pod_with(containerStatuses=[waiting("ContainerCreating")]),
            NodeState.STARTING,
            "NodeNotReady",
            "its pod is not ready yet",
            id="ordinary-start",
        ),
        pytest.param(
            pod_with(containerStatuses=[waiting("CrashLoopBackOff", "back-off 10s", "Unknown key a.b\n")]),
            NodeState.FAILED,
            "CrashLoopBackOff",
            "back-off 10s: Unknown key a.b",
            id="crash-with-last-words",
        ),
        pytest.param(
            pod_with(initContainerStatuses=[waiting("ErrImagePull", "no such image")]),
            NodeState.FAILED,
            "ErrImagePull",
            "no such image",
            id="no-image",
        ),
        pytest.param(
            pod_with(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ]
            ),
            NodeState.FAILED,
            "Unschedulable",
            "0/3 nodes",
            id="no-room",
        ),
    ],
)
def test_node_state_follows_from_its_pod(pod: Document, state: NodeState, reason: str, message: str) -> None:
    node = observed_node(pod, has_successor=True)

    assert (node.state, node.reason, node.message, node.revision) == (state, reason, message, "r")


def test_terminating_pod_has_nothing_left_to_restart() -> None:
    pod = pod_with(conditions=[{"type": "Ready", "status": "True"}])
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    node = observed_node(pod, has_successor=True)

    assert (node.state, node.revision, node.reason) == (NodeState.STARTING, None, "PodTerminating")


@pytest.mark.parametrize(("replicas", "state"), [(0, NodeState.STOPPING), (1, NodeState.STARTING)])
def test_terminating_pod_has_a_successor_only_within_the_number_of_its_stateful_set(
    host: KubernetesHost, store: FakeStore, cluster: Cluster, replicas: int, state: NodeState
) -> None:
    name = f"demo-main-{len(observe(host, cluster)[0].nodes)}"
    publish(host, cluster)
    store.stored["StatefulSet", "demo-main"]["spec"]["replicas"] += replicas
    store.add_pod(name, deletionTimestamp="2026-01-01T00:00:00Z")

    assert observe(host, cluster)[1].nodes[name].state is state

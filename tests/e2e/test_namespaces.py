"""Deletion of a namespace with all its objects; no writes without a change; other namespaces are allowed by name."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.alone

Document = dict[str, Any]
QUIET_S = 60
NOT_OURS = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "pods.metrics.k8s.io"}

NAMES = ("cluster.ottla.dev/demo", "topic.ottla.dev/deleted", "topic.ottla.dev/retained", "user.ottla.dev/alice")
"""Of what `manifests` makes."""


def manifests() -> list[Document]:
    listener = {"name": "scram", "port": 9094, "tls": True, "authentication": {"type": "scram-sha-512"}}
    cluster: Document = {
        "pools": [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}],
        "tls": {},
        "listeners": [listener],
        "authorization": {},
    }
    reference: Document = {"clusterRef": {"name": "demo"}}
    topic = {**reference, "partitions": 1}
    rules = [{"resource": {"type": "topic", "name": "deleted"}, "operations": ["Read"]}]
    user = {**reference, "authentication": {"type": "scram-sha-512"}, "authorization": {"rules": rules}}
    return [
        {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, name, spec in [
            ("Cluster", "demo", cluster),
            ("Topic", "deleted", {**topic, "deletionPolicy": "Delete"}),
            ("Topic", "retained", topic),
            ("User", "alice", user),
        ]
    ]


def versions(namespace: Any) -> dict[str, tuple[str, str]]:
    """Return uid and version of every object in the namespace, by kind and name."""
    listed = namespace.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    kinds = ",".join(kind for kind in listed if kind not in NOT_OURS)
    return {
        f"{it['kind']}/{it['metadata']['name']}": (it["metadata"]["uid"], it["metadata"]["resourceVersion"])
        for it in json.loads(namespace.kubectl("get", kinds, "-o", "json"))["items"]
    }


@pytest.fixture(scope="module")
def full(namespace: Any) -> Any:
    """The module's namespace with one of everything, all of it ready."""
    namespace.apply(*manifests())
    namespace.wait_ready(*NAMES)
    return namespace


def test_no_writes_without_a_change(full: Any) -> None:
    time.sleep(5)
    before, events = versions(full), full.events_of_controllers()
    time.sleep(QUIET_S)

    assert versions(full) == before
    assert full.events_of_controllers() == events
    assert {"StatefulSet/demo-main", "Secret/alice", "Cluster/demo"} <= before.keys()


def test_restarted_operator_writes_nothing(full: Any, operator: Any) -> None:
    before, events = versions(full), full.events_of_controllers()
    operator.restart()
    time.sleep(10)

    assert versions(full) == before
    assert full.events_of_controllers() == events


@pytest.fixture
def second_release(full: Any, helm: Callable[..., str]) -> Iterator[str]:
    """Another installation of the operator that watches the same namespace; its name in `status.operator`."""
    settings = f"crds.enabled=false,replicas=1,watchNamespaces={{{full.name}}}"
    chart, place = "charts/ottla-operator", ("--namespace", "ottla-second")
    helm("install", "second", chart, *place, "--create-namespace", "--wait", "--timeout=120s", "--set", settings)
    yield "ottla-second/second"
    helm("uninstall", "second", *place, "--wait")
    full.kubectl("delete", "namespace", "ottla-second", "--wait=false")


def test_second_release_leaves_clusters_of_another_operator_alone(full: Any, second_release: str) -> None:
    def operator() -> Document:
        found: Document = full.get("cluster.ottla.dev", "demo")["status"]["operator"]
        return found

    def said() -> list[str]:
        found: list[str] = full.events("Cluster", "demo", "OtherOperator")
        return found

    full.eventually(lambda: operator().get("refused") == second_release, "the second one asks, and is refused")
    full.eventually(said, "the second one says that it keeps away")
    before = versions(full)
    full.change("topic.ottla.dev", "retained", {"spec": {"partitions": 2}})
    full.wait_for("jsonpath={.status.observedGeneration}=2", "topic.ottla.dev/retained")
    full.wait_ready("topic.ottla.dev/retained", "cluster.ottla.dev/demo")

    assert said() == [
        f"ottla-system/ottla owns Cluster {full.name}/demo, so {second_release} does not reconcile it; give each "
        "operator namespaces of its own (watchNamespaces), or remove one of them"
    ]
    assert operator().keys() == {"name", "refused", "refusedAt"}
    assert operator()["name"] == "ottla-system/ottla"
    assert {key for key, it in versions(full).items() if before.get(key) != it} == {"Topic/retained"}


def test_other_namespaces_are_allowed_by_name_and_rejected_again(full: Any, other_namespace: Any) -> None:
    reference = {"clusterRef": {"name": "demo", "namespace": full.name}}
    topic = {**reference, "partitions": 1, "deletionPolicy": "Delete"}
    user = {**reference, "authentication": {"type": "scram-sha-512"}}
    visitors = [
        {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": {"name": "visitor"}, "spec": spec}
        for kind, spec in [("Topic", topic), ("User", user)]
    ]
    names = ("topic.ottla.dev/visitor", "user.ottla.dev/visitor")

    def allow(*namespaces: str) -> None:
        full.change("cluster.ottla.dev", "demo", {"spec": {"allowedNamespaces": list(namespaces)}})

    def assert_rejected() -> None:
        other_namespace.wait_for("condition=Stalled", *names)
        for name in names:
            ready = other_namespace.condition(*name.split("/"))
            assert (ready["status"], ready["reason"]) == ("False", "NamespaceNotAllowed")
            words = f"add {other_namespace.name} to spec.allowedNamespaces of Cluster demo in namespace {full.name}"
            assert words in ready["message"]

    pod = full.lives()
    allow("somebody-else")
    other_namespace.apply(*visitors)
    assert_rejected()
    assert not other_namespace.names("secret")

    allow("somebody-else", other_namespace.name)
    other_namespace.wait_ready(*names)
    assert other_namespace.names("secret") == {"secret/visitor"}
    made = other_namespace.get("topic.ottla.dev", "visitor")["status"]["topicId"]

    allow("somebody-else")
    assert_rejected()
    other_namespace.kubectl("delete", *names, "--timeout=60s")

    other_namespace.apply(*visitors)
    allow("*")
    other_namespace.wait_ready(*names)
    assert other_namespace.get("topic.ottla.dev", "visitor")["status"]["topicId"] == made, (
        "it was not deleted from outside"
    )
    assert full.lives() == pod


def test_definitions_that_are_deleted_and_put_back_cost_no_record(full: Any, operator: Any) -> None:
    asked = [{**it, "spec": full.get(it["kind"], it["metadata"]["name"])["spec"]} for it in manifests()]
    full.plugin("produce", "retained", text="still here\n")
    identity = full.get("cluster.ottla.dev", "demo")["status"]["clusterId"]

    full.kubectl("delete", "crd", "clusters.ottla.dev", "--timeout=120s")
    # The next leader has seen none of the objects that finalizers keep, and can watch nothing.
    operator.kill()
    full.kubectl("delete", "crd", "topics.ottla.dev", "users.ottla.dev", "--timeout=120s")
    full.wait_for("delete", "pod/demo-main-0")
    assert full.names("pvc") == {"persistentvolumeclaim/data-demo-main-0"}

    operator.install()
    full.apply(*asked)
    full.wait_ready(*NAMES)
    assert full.get("cluster.ottla.dev", "demo")["status"]["clusterId"] == identity
    assert full.plugin("consume", "retained", "-O", ":end") == "still here\n"


def test_namespace_is_deleted_with_all_its_objects(full: Any) -> None:
    finalizers = {name for name in ("topic.ottla.dev/deleted", "user.ottla.dev/alice") if has_finalizer(full, name)}
    full.kubectl("delete", "namespace", full.name, "--timeout=120s")

    assert finalizers == {"topic.ottla.dev/deleted", "user.ottla.dev/alice"}, "they could have kept it"


def has_finalizer(namespace: Any, name: str) -> bool:
    return bool(namespace.get(*name.split("/"))["metadata"].get("finalizers"))


@pytest.mark.usefixtures("own_release")
def test_operator_of_one_namespace_works_with_the_permissions_there(operator: Any, other_namespace: Any) -> None:
    operator.install(f"watchNamespaces={{{other_namespace.name}}}")
    other_namespace.apply(*manifests())
    other_namespace.wait_ready(*NAMES)
    other_namespace.kubectl("delete", "topic.ottla.dev/deleted", "user.ottla.dev/alice", "--timeout=60s")

    bindings = json.loads(other_namespace.kubectl("get", "clusterrolebindings", "-o", "json"))["items"]
    own = [it["roleRef"]["name"] for it in bindings if f"'{operator.system.name}'" in str(it.get("subjects"))]
    rules = [rule for name in own for rule in other_namespace.get("clusterrole", name)["rules"]]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [(["nodes"], ["get"])]
    assert "forbidden" not in operator.logs().lower()

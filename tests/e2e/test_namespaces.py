"""A namespace with everything in it goes; where nothing changes nothing is written; neighbours are let in by name."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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


def test_nothing_is_written_where_nothing_changes(full: Any) -> None:
    time.sleep(5)
    before, events = versions(full), full.names("event")
    time.sleep(QUIET_S)

    assert versions(full) == before
    assert full.names("event") == events
    assert {"StatefulSet/demo-main", "Secret/alice", "Cluster/demo"} <= before.keys()


def test_operator_that_starts_again_writes_nothing(full: Any, operator: Any) -> None:
    before, events = versions(full), full.names("event")
    operator.restart()
    time.sleep(10)

    assert versions(full) == before
    assert full.names("event") == events


@pytest.fixture
def second_release(full: Any, helm: Callable[..., str]) -> Iterator[str]:
    """Another installation of the operator that looks after the same namespace; its name in `status.operator`."""
    settings = f"crds.enabled=false,replicas=1,watchNamespaces={{{full.name}}}"
    chart, place = "charts/ottla-operator", ("--namespace", "ottla-second")
    helm("install", "second", chart, *place, "--create-namespace", "--wait", "--timeout=120s", "--set", settings)
    yield "ottla-second/second"
    helm("uninstall", "second", *place, "--wait")
    full.kubectl("delete", "namespace", "ottla-second", "--wait=false")


def test_second_release_keeps_away_from_what_has_an_operator(full: Any, second_release: str) -> None:
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
        f"ottla-system/ottla looks after Cluster {full.name}/demo, and so {second_release} does not; give each "
        "operator namespaces of its own (watchNamespaces), or remove one of them"
    ]
    assert operator().keys() == {"name", "refused", "refusedAt"}
    assert operator()["name"] == "ottla-system/ottla"
    assert {key for key, it in versions(full).items() if before.get(key) != it} == {"Topic/retained"}


def test_neighbours_are_let_in_by_name_and_shut_out_again(full: Any, neighbour: Any) -> None:
    reference = {"clusterRef": {"name": "demo", "namespace": full.name}}
    topic = {**reference, "partitions": 1, "deletionPolicy": "Delete"}
    user = {**reference, "authentication": {"type": "scram-sha-512"}}
    visitors = [
        {"apiVersion": "ottla.dev/v1", "kind": kind, "metadata": {"name": "visitor"}, "spec": spec}
        for kind, spec in [("Topic", topic), ("User", user)]
    ]
    names = ("topic.ottla.dev/visitor", "user.ottla.dev/visitor")

    def let_in(*namespaces: str) -> None:
        full.change("cluster.ottla.dev", "demo", {"spec": {"allowedNamespaces": list(namespaces)}})

    def assert_refused() -> None:
        neighbour.wait_for("condition=Stalled", *names)
        for name in names:
            ready = neighbour.condition(*name.split("/"))
            assert (ready["status"], ready["reason"]) == ("False", "NamespaceNotAllowed")
            words = f"add {neighbour.name} to spec.allowedNamespaces of Cluster demo in namespace {full.name}"
            assert words in ready["message"]

    pod = full.lives()
    let_in("somebody-else")
    neighbour.apply(*visitors)
    assert_refused()
    assert not neighbour.names("secret")

    let_in("somebody-else", neighbour.name)
    neighbour.wait_ready(*names)
    assert neighbour.names("secret") == {"secret/visitor"}
    made = neighbour.get("topic.ottla.dev", "visitor")["status"]["topicId"]

    let_in("somebody-else")
    assert_refused()
    neighbour.kubectl("delete", *names, "--timeout=60s")

    neighbour.apply(*visitors)
    let_in("*")
    neighbour.wait_ready(*names)
    assert neighbour.get("topic.ottla.dev", "visitor")["status"]["topicId"] == made, "it was not deleted from outside"
    assert full.lives() == pod


def test_definitions_that_are_deleted_and_put_back_cost_no_record(full: Any, operator: Any) -> None:
    asked = [{**it, "spec": full.get(it["kind"], it["metadata"]["name"])["spec"]} for it in manifests()]
    full.plugin("produce", "retained", text="still here\n")
    identity = full.get("cluster.ottla.dev", "demo")["status"]["clusterId"]

    full.kubectl("delete", "crd", "clusters.ottla.dev", "--timeout=120s")
    # Whoever leads now has seen none of what the others' finalizers keep, and can watch nothing.
    operator.kill()
    full.kubectl("delete", "crd", "topics.ottla.dev", "users.ottla.dev", "--timeout=120s")
    full.wait_for("delete", "pod/demo-main-0")
    assert full.names("pvc") == {"persistentvolumeclaim/data-demo-main-0"}

    operator.install()
    full.apply(*asked)
    full.wait_ready(*NAMES)
    assert full.get("cluster.ottla.dev", "demo")["status"]["clusterId"] == identity
    assert full.plugin("consume", "retained", "-O", ":end") == "still here\n"


def test_namespace_goes_with_all_that_is_in_it(full: Any) -> None:
    finalizers = {name for name in ("topic.ottla.dev/deleted", "user.ottla.dev/alice") if has_finalizer(full, name)}
    full.kubectl("delete", "namespace", full.name, "--timeout=120s")

    assert finalizers == {"topic.ottla.dev/deleted", "user.ottla.dev/alice"}, "they could have kept it"


def has_finalizer(namespace: Any, name: str) -> bool:
    return bool(namespace.get(*name.split("/"))["metadata"].get("finalizers"))


@pytest.mark.usefixtures("own_release")
def test_operator_of_one_namespace_does_its_work_by_what_it_may_there(operator: Any, neighbour: Any) -> None:
    operator.install(f"watchNamespaces={{{neighbour.name}}}")
    neighbour.apply(*manifests())
    neighbour.wait_ready(*NAMES)
    neighbour.kubectl("delete", "topic.ottla.dev/deleted", "user.ottla.dev/alice", "--timeout=60s")

    bindings = json.loads(neighbour.kubectl("get", "clusterrolebindings", "-o", "json"))["items"]
    own = [it["roleRef"]["name"] for it in bindings if f"'{operator.system.name}'" in str(it.get("subjects"))]
    rules = [rule for name in own for rule in neighbour.get("clusterrole", name)["rules"]]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [(["nodes"], ["get"])]
    assert "forbidden" not in operator.logs().lower()

"""A user's first hour on Kubernetes: a cluster, a topic, records, changes, accidents, and leaving again.

Every test uses topics of its own on one cluster, `demo` of examples/cluster.yaml, and leaves that as it found it.
"""

import json
from typing import Any

import pytest

pytestmark = pytest.mark.alone

Document = dict[str, Any]
BOOTSTRAP = "demo-bootstrap:9092"


class Demo:
    """The cluster `demo` in the module's namespace."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def topic(self, name: str, partitions: int = 1, **spec: Any) -> Document:
        return {
            "apiVersion": "ottla.dev/v1",
            "kind": "Topic",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "demo"}, "partitions": partitions, **spec},
        }

    def add_topic(self, name: str, partitions: int = 1, **spec: Any) -> None:
        self.namespace.apply(self.topic(name, partitions, **spec))
        self.namespace.wait_ready(f"topic.ottla.dev/{name}")

    def produce(self, topic: str, *values: str) -> None:
        self.namespace.ottla("produce", topic, "-b", BOOTSTRAP, text="".join(f"{value}\n" for value in values))

    def consume(self, topic: str) -> list[str]:
        return sorted(self.namespace.ottla("consume", topic, "-b", BOOTSTRAP, "-O", ":end").splitlines())

    def partitions(self, topic: str) -> int:
        return len(self.namespace.partitions(topic))

    def topics(self) -> set[str]:
        return {it["name"] for it in self.namespace.ask("topic", "list")}

    def pod(self) -> Document:
        pod: Document = self.namespace.get("pod", "demo-main-0")
        return pod

    def wait_ready(self) -> None:
        self.namespace.wait_ready("cluster.ottla.dev/demo")


@pytest.fixture(scope="module")
def demo(namespace: Any) -> Demo:
    namespace.apply_file("examples/cluster.yaml")
    namespace.apply_file("examples/topic.yaml")
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo", "topic.ottla.dev/greetings")
    return Demo(namespace)


def test_cluster_and_topic_become_ready(demo: Demo) -> None:
    cluster, topic = (demo.namespace.get(kind, name) for kind, name in (("cluster", "demo"), ("topic", "greetings")))

    status = cluster["status"]
    assert (status["nodes"], status["readyNodes"]) == (1, 1)
    assert status["bootstrapServers"] == f"demo-bootstrap.{demo.namespace.name}.svc:9092"
    assert (topic["status"]["partitions"], topic["status"]["replicationFactor"]) == (3, 1)
    assert topic["status"]["observedGeneration"] == topic["metadata"]["generation"]


def test_kubectl_get_shows_the_state_of_objects(demo: Demo) -> None:
    clusters = demo.namespace.kubectl("get", "clusters.ottla.dev").splitlines()
    topics = demo.namespace.kubectl("get", "topic.ottla.dev", "greetings").splitlines()

    assert clusters[0].split() == ["NAME", "NODES", "READY", "NODES", "READY", "REASON", "AGE"]
    assert clusters[1].split()[:5] == ["demo", "1", "1", "True", "Ready"]
    assert topics[0].split() == ["NAME", "CLUSTER", "PARTITIONS", "RF", "READY", "REASON", "AGE"]
    assert topics[1].split()[:6] == ["greetings", "demo", "3", "1", "True", "AsSpecified"]


def test_record_produced_in_a_pod_is_read_back(demo: Demo) -> None:
    demo.add_topic("round-trip", 3)
    demo.produce("round-trip", "hello", "from", "a pod")

    assert demo.consume("round-trip") == ["a pod", "from", "hello"]


def test_more_partitions_are_added(demo: Demo) -> None:
    demo.add_topic("growing", 2)
    demo.namespace.apply(demo.topic("growing", 5))
    demo.namespace.wait_for("jsonpath={.status.partitions}=5", "topic.ottla.dev/growing")

    assert demo.partitions("growing") == 5
    assert "grow topic growing to 5 partitions" in demo.namespace.kubectl("events", "--for", "topic.ottla.dev/growing")


def test_fewer_partitions_are_rejected_by_the_api_server(demo: Demo) -> None:
    demo.add_topic("shrinking", 3)

    with pytest.raises(AssertionError, match="partitions can only grow"):
        demo.namespace.apply(demo.topic("shrinking", 2))

    assert demo.namespace.get("topic", "shrinking")["spec"]["partitions"] == 3
    assert demo.partitions("shrinking") == 3


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"config": {"retention.msx": "1"}}, "InvalidConfig", id="wrong-config-key"),
        pytest.param({"replicationFactor": 3}, "ReplicationFactorTooLarge", id="impossible-replication-factor"),
    ],
)
def test_topic_that_brokers_reject_is_stalled_with_the_reason(demo: Demo, spec: Document, reason: str) -> None:
    name = reason.lower()
    demo.namespace.apply(demo.topic(name, **spec))
    demo.namespace.wait_for("condition=Stalled", f"topic.ottla.dev/{name}")

    ready = demo.namespace.condition("topic", name)
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert name not in demo.topics()
    assert reason in demo.namespace.kubectl("events", "--for", f"topic.ottla.dev/{name}", "--types=Warning")


def test_half_a_change_is_no_change(demo: Demo) -> None:
    demo.add_topic("whole", 2)
    demo.namespace.apply(demo.topic("whole", 4, config={"no.such.key": "1"}))
    demo.namespace.wait_for("condition=Stalled", "topic.ottla.dev/whole")

    assert demo.partitions("whole") == 2


@pytest.mark.parametrize(("policy", "is_kept"), [("Delete", False), ("Retain", True)])
def test_deletion_follows_the_policy(demo: Demo, policy: str, is_kept: bool) -> None:
    name = f"policy-{policy.lower()}"
    demo.add_topic(name, deletionPolicy=policy)
    demo.namespace.kubectl("delete", "topic.ottla.dev", name, "--timeout=60s")

    assert (name in demo.topics()) is is_kept


@pytest.mark.parametrize(
    "force", [pytest.param([], id="clean"), pytest.param(["--grace-period=0", "--force"], id="forced")]
)
def test_records_survive_the_end_of_their_pod(demo: Demo, force: list[str]) -> None:
    name = f"survivor-{len(force)}"
    demo.add_topic(name, 2)
    values = [f"{number:04}" for number in range(1_000)]
    demo.produce(name, *values)
    before = demo.pod()["metadata"]["uid"]

    demo.namespace.kubectl("delete", "pod", "demo-main-0", *force)
    demo.namespace.wait_for("jsonpath={.metadata.name}=demo-main-0", "pod/demo-main-0")
    demo.namespace.wait_ready("pod/demo-main-0")
    demo.wait_ready()

    assert demo.pod()["metadata"]["uid"] != before
    assert demo.consume(name) == values


def test_new_configuration_restarts_the_node_once(demo: Demo) -> None:
    before = demo.pod()["metadata"]
    patch = {"spec": {"config": {"num.partitions": "7"}}}
    demo.namespace.kubectl("patch", "cluster.ottla.dev", "demo", "--type=merge", "-p", json.dumps(patch))
    generation = demo.namespace.get("cluster", "demo")["metadata"]["generation"]
    demo.namespace.wait_for(f"jsonpath={{.status.observedGeneration}}={generation}", "cluster.ottla.dev/demo")
    demo.wait_ready()
    demo.namespace.wait_ready("pod/demo-main-0")

    after = demo.pod()
    assert after["metadata"]["uid"] != before["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    revisions = [it["annotations"]["ottla.dev/revision"] for it in (before, after["metadata"])]
    assert revisions[0] != revisions[1]
    properties = demo.namespace.get("configmap", "demo-main")["data"]["demo-main-0.properties"]
    assert "num.partitions=7" in properties.splitlines()


def test_deleted_stateful_set_is_recreated_with_its_records(demo: Demo) -> None:
    demo.add_topic("rebuilt")
    demo.produce("rebuilt", "still here")
    demo.namespace.kubectl("delete", "statefulset", "demo-main", "--timeout=120s")
    demo.namespace.wait_for("create", "statefulset/demo-main")
    demo.namespace.wait_for("create", "pod/demo-main-0")
    demo.namespace.wait_ready("pod/demo-main-0")
    demo.wait_ready()

    assert demo.consume("rebuilt") == ["still here"]


def test_deleted_cluster_keeps_its_volume_and_reuses_it(demo: Demo) -> None:
    demo.add_topic("inherited")
    demo.produce("inherited", "one", "two")
    identity = demo.namespace.get("cluster", "demo")["status"]["clusterId"]

    demo.namespace.kubectl("delete", "cluster.ottla.dev", "demo", "--timeout=60s")
    demo.namespace.wait_for("delete", "pod/demo-main-0")
    claims = demo.namespace.names("pvc", "ottla.dev/cluster=demo")
    demo.namespace.apply_file("examples/cluster.yaml")
    demo.namespace.wait_for("create", "pod/demo-main-0")
    demo.wait_ready()

    assert claims == {"persistentvolumeclaim/data-demo-main-0"}
    assert demo.namespace.get("cluster", "demo")["status"]["clusterId"] == identity
    assert demo.consume("inherited") == ["one", "two"]


def test_uninstalled_operator_leaves_clusters_and_data(demo: Demo, operator: Any) -> None:
    demo.add_topic("left-alone")
    demo.produce("left-alone", "before")
    pod = demo.pod()["metadata"]["uid"]

    operator.uninstall()
    try:
        assert demo.namespace.names("crd") >= {
            "customresourcedefinition.apiextensions.k8s.io/clusters.ottla.dev",
            "customresourcedefinition.apiextensions.k8s.io/topics.ottla.dev",
        }
        demo.produce("left-alone", "after")
        assert demo.consume("left-alone") == ["after", "before"]
    finally:
        operator.install()

    demo.wait_ready()
    assert demo.pod()["metadata"]["uid"] == pod


def test_restarted_operator_changes_nothing(demo: Demo, operator: Any) -> None:
    version = demo.namespace.get("cluster", "demo")["metadata"]["resourceVersion"]
    operator.restart()

    assert demo.namespace.get("cluster", "demo")["metadata"]["resourceVersion"] == version


def test_operator_had_no_unexpected_error(demo: Demo, operator: Any) -> None:
    assert "Traceback" not in operator.logs()

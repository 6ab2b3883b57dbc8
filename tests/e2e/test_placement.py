"""Placement and volumes of nodes on Kubernetes nodes in zones: racks, growing and further volumes, and removal.

Three worker nodes in three zones.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]
BOOTSTRAP = "demo-bootstrap:9092"
ZONE = "topology.kubernetes.io/zone"
SETTLE_S = 240


class Placed:
    """The cluster `demo` of three nodes in the module's namespace."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.spec: Document = {
            "rack": {"topologyKey": ZONE},
            "pools": [{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}],
        }

    def ask(self, **spec: Any) -> None:
        self.spec |= spec
        self.namespace.declare("Cluster", "demo", **self.spec)

    def ask_pool(self, **pool: Any) -> None:
        self.ask(pools=[{**self.spec["pools"][0], **pool}])

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until the Cluster is ready in its latest generation, and ``is_so``."""

        def is_ready() -> bool:
            found = self.namespace.get("cluster.ottla.dev", "demo")
            conditions = found.get("status", {}).get("conditions", [])
            said = [(it["status"], it["observedGeneration"]) for it in conditions if it["type"] == "Ready"]
            return said == [("True", found["metadata"]["generation"])]

        self.namespace.eventually(lambda: is_ready() and is_so(), what, SETTLE_S)

    def until_stalled(self, word: str) -> None:
        """Wait until the Cluster is stalled in its latest generation, for a reason with ``word``."""

        def is_said() -> bool:
            conditions = self.namespace.get("cluster.ottla.dev", "demo")["status"]["conditions"]
            said = [it["message"] for it in conditions if (it["type"], it["status"]) == ("Stalled", "True")]
            return any(word in message for message in said)

        self.namespace.eventually(is_said, f"a reason with {word}", SETTLE_S)

    def claims(self) -> list[Document]:
        listed = self.namespace.kubectl("get", "pvc", "-l", "ottla.dev/cluster=demo", "-o", "json")
        found: list[Document] = json.loads(listed)["items"]
        return found

    def capacities(self) -> dict[str, str]:
        return {
            it["metadata"]["name"]: it.get("status", {}).get("capacity", {}).get("storage", "") for it in self.claims()
        }

    def produce(self, *values: str) -> None:
        self.namespace.ottla("produce", "ledger", "-b", BOOTSTRAP, text="".join(f"{value}\n" for value in values))

    def consume(self) -> list[str]:
        return sorted(self.namespace.ottla("consume", "ledger", "-b", BOOTSTRAP, "-O", ":end").splitlines())


@pytest.fixture(scope="module")
def placed(namespace: Any) -> Placed:
    cluster = Placed(namespace)
    cluster.ask()
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo")
    namespace.declare("Topic", "ledger", partitions=3, replicationFactor=3)
    namespace.wait_ready("topic.ottla.dev/ledger")
    cluster.produce("first")
    return cluster


def zone_of(namespace: Any, machine: str) -> str:
    zone: str = namespace.get("node", machine)["metadata"]["labels"][ZONE]
    return zone


def test_nodes_are_spread_and_have_the_racks_of_their_kubernetes_nodes(placed: Placed) -> None:
    machines = {name: it["spec"]["nodeName"] for name, it in placed.namespace.pods().items()}
    listed = placed.namespace.ask("broker", "list")

    assert len(set(machines.values())) == 3
    racks = {name: zone_of(placed.namespace, machine) for name, machine in machines.items()}
    assert {f"demo-main-{it['id']}": it["rack"] for it in listed} == racks
    assert len(set(racks.values())) == 3


@pytest.mark.usefixtures("growing_volumes")
def test_volumes_grow_under_running_nodes(placed: Placed) -> None:
    pods = placed.namespace.uids()
    placed.ask_pool(storage={"size": "2Gi"})

    placed.until(lambda: set(placed.capacities().values()) == {"2Gi"}, "larger volumes")

    assert placed.namespace.uids() == pods
    template = placed.namespace.get("statefulset", "demo-main")["spec"]["volumeClaimTemplates"][0]
    assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_disk_is_added_and_keeps_records(placed: Placed) -> None:
    placed.ask_pool(storage={**placed.spec["pools"][0]["storage"], "volumes": [{"name": "d1", "size": "1Gi"}]})

    placed.until(lambda: len(placed.capacities()) == 6, "further volumes")
    placed.produce("on two disks")

    volumes = {
        name: {it["name"] for it in pod["spec"]["volumes"] if "persistentVolumeClaim" in it}
        for name, pod in placed.namespace.pods().items()
    }
    assert volumes == {f"demo-main-{number}": {"data", "d1"} for number in range(3)}
    assert "first" in placed.consume()
    assert "on two disks" in placed.consume()


def test_controller_without_its_disk_returns_as_a_new_voter(placed: Placed) -> None:
    def votes_as() -> list[str]:
        found = placed.namespace.ask("quorum", "describe")["replicas"]
        return [it["directoryId"] for it in found if it["nodeId"] == 2 and it["role"] != "observer"]

    before, pod = votes_as(), placed.namespace.uids()["demo-main-2"]
    placed.namespace.kubectl("delete", "pvc", "data-demo-main-2", "--wait=false")
    placed.namespace.kubectl("delete", "pod", "demo-main-2")

    placed.until(
        lambda: placed.namespace.uids().get("demo-main-2") not in (None, pod) and votes_as() not in ([], before),
        "another voter",
    )

    assert "first" in placed.consume()


@pytest.mark.parametrize(
    ("template", "word"),
    [
        pytest.param({"tolerations": [{"key": "a", "operator": "Perhaps"}]}, "Perhaps", id="wrong-value"),
        pytest.param({"affinity": {"nodeAfinity": {}}}, "nodeAfinity", id="unknown-field"),
    ],
)
def test_template_that_kubernetes_rejects_is_a_reason_and_restarts_no_pod(
    placed: Placed, template: Document, word: str
) -> None:
    pods = placed.namespace.uids()
    placed.ask_pool(template=template)

    placed.until_stalled(word)

    placed.ask_pool(template={})
    placed.until(lambda: True, "the former template")
    assert placed.namespace.uids() == pods


def test_volume_of_a_removed_node_is_deleted_if_the_spec_says_so(placed: Placed) -> None:
    main = placed.spec["pools"][0]
    more = {"name": "more", "nodes": 1, "roles": ["broker"], "firstNodeId": 10}
    more["storage"] = {"size": "1Gi", "onScaleDown": "Delete"}
    placed.ask(pools=[main, more])
    placed.until(lambda: "data-demo-more-0" in placed.capacities(), "one more broker")
    placed.ask(pools=[main, {**more, "nodes": 0}])

    placed.until(lambda: "data-demo-more-0" not in placed.capacities(), "one broker less")

    assert set(placed.capacities()) == {f"{disk}-demo-main-{n}" for disk in ("data", "d1") for n in range(3)}
    assert "first" in placed.consume()


def test_volumes_are_deleted_with_the_cluster_if_the_spec_says_so(placed: Placed) -> None:
    def owned() -> list[bool]:
        return [bool(it["metadata"].get("ownerReferences")) for it in placed.claims()]

    placed.ask(deletionPolicy="Delete")
    placed.until(lambda: owned() == [True] * 6, "owners")
    placed.ask(deletionPolicy="Retain")
    placed.until(lambda: owned() == [False] * 6, "nobody's volumes")
    placed.ask(deletionPolicy="Delete")
    placed.until(lambda: owned() == [True] * 6, "owners again")
    placed.namespace.kubectl("delete", "cluster.ottla.dev", "demo")

    placed.namespace.kubectl("wait", "--for=delete", "pvc", "-l", "ottla.dev/cluster=demo", "--timeout=180s")

    assert placed.capacities() == {}

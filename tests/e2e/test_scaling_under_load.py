"""More nodes and fewer on a real Kubernetes, under load: voters and records move, and no pod is restarted."""

from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]


class Scaled:
    """The cluster `demo` of one pool, and topics of a ledger."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace

    def scale(self, nodes: int) -> None:
        """Set the number of nodes, and wait until the reconciliation has finished."""
        pool = {"name": "main", "nodes": nodes, "storage": {"size": "1Gi"}}
        self.namespace.change("cluster.ottla.dev", "demo", {"spec": {"pools": [pool]}})
        self.namespace.wait_for("condition=Ready", "cluster.ottla.dev/demo", timeout_s=300)

    def voters(self) -> set[int]:
        return {it["nodeId"] for it in self.namespace.ask("quorum", "describe")["replicas"] if it["role"] != "observer"}

    def brokers(self) -> set[int]:
        """Return the ids of the brokers that are registered, fenced ones included."""
        return {it["id"] for it in self.namespace.ask("broker", "list")}

    def replicas(self, topic: str) -> list[list[int]]:
        return [sorted(it["replicas"]) for it in self.namespace.partitions(topic)]


@pytest.fixture(scope="module")
def scaled(namespace: Any) -> Scaled:
    pools = [{"name": "main", "nodes": 1, "storage": {"size": "1Gi"}}]
    namespace.declare("Cluster", "demo", pools=pools, scaling={"onScaleUp": "Rebalance"})
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo")
    return Scaled(namespace)


def test_one_controller_becomes_three_and_its_topics_spread(
    scaled: Scaled, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    scaled.namespace.declare("Topic", "ledger", partitions=10, replicationFactor=1)
    scaled.namespace.wait_ready("topic.ottla.dev/ledger")
    book = ledger(scaled.namespace, "ledger")
    with watch_pods(scaled.namespace) as watch:
        scaled.scale(3)
    book.check()

    assert scaled.voters() == {0, 1, 2}
    assert scaled.brokers() == {0, 1, 2}
    assert not watch.history, "nobody was restarted for others to come"


def test_topic_gets_more_replicas_without_losing_a_record(scaled: Scaled, ledger: Callable[..., Any]) -> None:
    book = ledger(scaled.namespace, "ledger")
    scaled.namespace.declare("Topic", "ledger", partitions=10, replicationFactor=3)
    scaled.namespace.wait_for("jsonpath={.status.replicationFactor}=3", "topic.ottla.dev/ledger")
    scaled.namespace.wait_ready("topic.ottla.dev/ledger")
    book.check()

    assert scaled.replicas("ledger") == [[0, 1, 2]] * 10


def test_three_nodes_become_five_and_three_again(
    scaled: Scaled, ledger: Callable[..., Any], watch_pods: Callable[..., Any]
) -> None:
    book = ledger(scaled.namespace, "ledger")
    with watch_pods(scaled.namespace) as watch:
        scaled.scale(5)
        assert scaled.voters() == {0, 1, 2, 3, 4}
        scaled.namespace.eventually(
            lambda: {3, 4} <= {node for replicas in scaled.replicas("ledger") for node in replicas},
            "records are on the new nodes",
        )
        scaled.scale(3)
    book.check()

    assert scaled.voters() == {0, 1, 2}
    assert scaled.brokers() == {0, 1, 2}
    assert scaled.replicas("ledger") == [[0, 1, 2]] * 10
    assert scaled.namespace.names("pod", "ottla.dev/cluster=demo") == {f"pod/demo-main-{node}" for node in range(3)}
    assert len(scaled.namespace.names("pvc", "ottla.dev/cluster=demo")) == 5, "volumes stay unless asked otherwise"
    assert not watch.history, "nobody was restarted for others to come and go"

"""Brokers and controllers that are added and removed on a real cluster, while records are written and none is lost.

The ledger has the acknowledged records: all of them are read back in the end, also from moved partitions.
"""

from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]
BOOTSTRAP = "demo-bootstrap:9092"
SETTLE_S = 360


class Scaled:
    """The cluster `demo`: a pool of controllers that are brokers too, and one of brokers only."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.written: list[str] = []

    def ask(self, main: int, more: int, **scaling: Any) -> None:
        storage = {"size": "1Gi"}
        pools = [
            {"name": "main", "nodes": main, "storage": storage},
            {"name": "more", "nodes": more, "roles": ["broker"], "firstNodeId": 10, "storage": storage},
        ]
        scaling = {"throttleBytesPerSecond": 20_000_000, **scaling}
        self.namespace.declare("Cluster", "demo", pools=pools, scaling=scaling)

    def status(self) -> Document:
        found: Document = self.namespace.get("cluster.ottla.dev", "demo")
        ready = next(it for it in found["status"]["conditions"] if it["type"] == "Ready")
        is_current = ready["observedGeneration"] == found["metadata"]["generation"]
        return {**found["status"], "ready": is_current and (ready["status"], ready["reason"]) == ("True", "Ready")}

    def until(self, is_so: Callable[[Document], bool], what: str) -> None:
        """Wait until the status ``is_so``; write records meanwhile, as an application does."""

        def is_there() -> bool:
            found = is_so(self.status())
            if not found:
                self.produce()
            return found

        self.namespace.eventually(is_there, what, SETTLE_S)

    def produce(self) -> None:
        values = [f"record-{len(self.written) + number}" for number in range(20)]
        self.namespace.ottla("produce", "ledger", "-b", BOOTSTRAP, text="".join(f"{value}\n" for value in values))
        self.written += values

    def assert_nothing_is_lost(self) -> None:
        read = self.namespace.ottla("consume", "ledger", "-b", BOOTSTRAP, "-O", ":end").splitlines()
        assert set(self.written) <= set(read)

    def brokers(self) -> dict[int, int]:
        """Return how many replicas each broker holds."""
        return {row["id"]: row["replicas"] for row in self.namespace.ask("broker", "list")}

    def voters(self) -> list[int]:
        return sorted(row["id"] for row in self.namespace.ask("broker", "list") if row["quorum"])

    def assert_nothing_is_left_over(self) -> None:
        assert "throttle" not in self.status()["scaling"]
        assert "throttled" not in str(self.namespace.ask("topic", "describe", "ledger"))


@pytest.fixture(scope="module")
def scaled(namespace: Any) -> Scaled:
    cluster = Scaled(namespace)
    cluster.ask(1, 2)
    namespace.start_client()
    namespace.wait_ready("cluster.ottla.dev/demo")
    namespace.declare("Topic", "ledger", partitions=6, replicationFactor=2)
    namespace.wait_ready("topic.ottla.dev/ledger")
    cluster.produce()
    return cluster


def test_new_brokers_get_their_share_if_the_spec_says_so(scaled: Scaled) -> None:
    scaled.ask(1, 4, onScaleUp="Rebalance")

    scaled.until(lambda status: status["ready"] and status["scaling"]["brokers"] == [0, 10, 11, 12, 13], "five brokers")

    assert set(scaled.brokers()) == {0, 10, 11, 12, 13}
    assert max(scaled.brokers().values()) - min(scaled.brokers().values()) <= 1
    scaled.assert_nothing_is_left_over()
    scaled.assert_nothing_is_lost()


def test_removed_brokers_are_drained_and_unregistered(scaled: Scaled) -> None:
    scaled.ask(1, 2)

    scaled.until(lambda status: status["ready"] and status["nodes"] == 3, "three brokers")

    assert set(scaled.brokers()) == {0, 10, 11}
    assert scaled.namespace.names("pods", "ottla.dev/pool=more") == {"pod/demo-more-0", "pod/demo-more-1"}
    scaled.assert_nothing_is_left_over()
    scaled.assert_nothing_is_lost()


def test_plan_is_read_before_it_runs(scaled: Scaled) -> None:
    scaled.namespace.plugin("scale", "more=3")
    scaled.until(lambda status: status["ready"] and status["nodes"] == 4, "four brokers")
    before = scaled.brokers()

    shown = scaled.namespace.plugin("rebalance")

    plan = scaled.status()["rebalance"]["id"]
    assert shown.startswith(plan)
    assert scaled.brokers() == before

    scaled.namespace.plugin("rebalance", "--execute", plan, "--no-wait")
    scaled.until(lambda status: status["rebalance"]["phase"] == "Done" and status["ready"], "the moves")

    assert max(scaled.brokers().values()) - min(scaled.brokers().values()) <= 1
    scaled.assert_nothing_is_left_over()
    scaled.assert_nothing_is_lost()


def test_partition_is_moved_by_hand_and_stays_there(scaled: Scaled) -> None:
    (before, *others) = [it["replicas"] for it in scaled.namespace.partitions("ledger")]
    target = sorted(scaled.brokers().keys() - set(before))

    scaled.namespace.plugin("reassign", f"ledger-0={','.join(map(str, target))}", "--wait", "--yes")
    # The operator finds the reassignment when it applies a change of the spec.
    scaled.ask(1, 3)
    scaled.until(lambda status: status["ready"], "everybody is ready")

    assert [it["replicas"] for it in scaled.namespace.partitions("ledger")] == [target, *others]
    scaled.assert_nothing_is_lost()


def test_one_controller_becomes_three(scaled: Scaled) -> None:
    assert scaled.voters() == [0]

    scaled.ask(3, 3)
    scaled.until(lambda status: status["ready"] and status["nodes"] == 6, "three controllers")

    assert scaled.voters() == [0, 1, 2]
    scaled.assert_nothing_is_lost()

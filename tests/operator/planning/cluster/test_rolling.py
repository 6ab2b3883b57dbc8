"""Which brokers are restarted together, and the reports of a roll that halts or waits for a window."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from places import place_of

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Halted, Underway, Waiting
from ottla_operator.model.images import broker_image
from ottla_operator.model.maintenance import WindowState
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.operation import Record, follow
from ottla_operator.planning.cluster.rolling import Roll, RollTimings, roll
from ottla_operator.ports.cluster_view import ClusterView, PartitionView, QuorumMember
from ottla_operator.ports.nodes import NodeState, ObservedNode

NOW = "2026-01-01T00:00:00Z"


def desired(
    brokers: int = 6, restart: str = "", *, known: Mapping[str, str] | None = None, **spec: Any
) -> DesiredCluster:
    storage = {"size": "1Gi"}
    pools = [
        {"name": "q", "nodes": 1, "roles": ["controller"], "firstNodeId": 20, "storage": storage},
        {"name": "b", "nodes": brokers, "roles": ["broker"], "firstNodeId": 0, "storage": storage},
    ]
    document = {
        "kind": "Cluster",
        "metadata": {"name": "c", "generation": 1, "annotations": {"ottla.dev/restart": restart}},
        "spec": {"pools": pools, **spec},
        "status": {"clusterId": "c", "initialControllers": [], "image": "r:0.1.0", **(known or {})},
    }
    cluster = Cluster.parse(document)
    return desired_cluster(cluster, place_of, image=broker_image(cluster, "r:0.1.0"))


def observed(of: DesiredCluster, **others: ObservedNode) -> dict[str, ObservedNode]:
    """Return nodes that run with the spec of ``of``; ``others`` by their pools and ordinals, such as ``b0``."""
    seen = {
        it.name: ObservedNode(name=it.name, state=NodeState.READY, revision=it.revision, parts=it.parts)
        for it in of.nodes
    }
    return {**seen, **{f"c-{name[0]}-{name[1:]}": it for name, it in others.items()}}


def view(partitions: Mapping[int, tuple[int, ...]], *, racks: int = 3, brokers: int = 6) -> ClusterView:
    """Return a whole cluster, broker n in rack n modulo ``racks``."""
    return ClusterView(
        cluster_id="c",
        brokers=dict.fromkeys(range(brokers), False),
        controller_id=20,
        voters=(QuorumMember(node_id=20, directory_id="d", is_caught_up=True),),
        partitions=tuple(
            PartitionView(partition=TopicPartition("t", number), leader=it[0], replicas=it, isr=it)
            for number, it in partitions.items()
        ),
        min_isr={"t": 2},
        racks={number: f"rack-{number % racks}" for number in range(brokers)},
    )


def of_brokers(found: Roll) -> list[int]:
    return [it.node.node_id for it in found.restarts]


RACK = {"rolling": {"parallelism": "Rack"}}
SPREAD = {0: (0, 1, 2), 1: (3, 4, 5), 2: (1, 2, 3)}


@pytest.mark.parametrize(
    ("rolling", "seen", "together"),
    [
        pytest.param({}, view(SPREAD), [0], id="one-by-one-when-absent"),
        pytest.param(RACK, view(SPREAD), [0, 3], id="rack"),
        pytest.param({"rolling": {"parallelism": "Rack", "maxUnavailable": 1}}, view(SPREAD), [0], id="at-most-one"),
        pytest.param(RACK, view(SPREAD, racks=1), [0, 3], id="only-those-that-no-partition-misses"),
        pytest.param(RACK, view({0: (0, 3, 1)}), [0], id="not-two-of-one-partition"),
        pytest.param(RACK, view({0: (0, 3)}), [0], id="not-the-last-two-in-sync"),
        pytest.param(RACK, view({0: (0,), 1: (3,)}), [0, 3], id="single-replicas-are-away-anyway"),
        pytest.param(RACK, replace(view(SPREAD), racks={}), [0], id="no-rack-is-known"),
    ],
)
def test_brokers_are_restarted_together(rolling: dict[str, Any], seen: ClusterView, together: list[int]) -> None:
    now = desired(**rolling, config={"queued.max.requests": "9"})
    before = observed(desired(**rolling), q0=observed(now)["c-q-0"])

    found = roll(now, before, seen, None, RollTimings())

    assert of_brokers(found) == together
    assert {it.reason for it in found.restarts} == {"config queued.max.requests"}


def test_brokers_wait_for_all_of_a_rack() -> None:
    now = desired(**RACK, config={"queued.max.requests": "9"})
    up = observed(now)
    starting = replace(up["c-b-3"], state=NodeState.STARTING)
    nodes = observed(desired(**RACK), q0=up["c-q-0"], b0=up["c-b-0"], b3=starting)

    found = roll(now, nodes, view(SPREAD), None, RollTimings())

    assert found.restarts == ()
    assert found.operation is not None
    assert (found.operation.blocked_by, found.operation.left) == (("c-b-3",), 4)


def test_no_node_is_restarted_while_a_certificate_is_unverified() -> None:
    now = desired(config={"queued.max.requests": "9"})
    up = observed(now)
    words = "listener out presents a certificate without 10.0.0.2, its advertised host"
    nodes = observed(desired(), q0=up["c-q-0"], b0=replace(up["c-b-0"], unverified=words))

    found = roll(now, nodes, view(SPREAD), None, RollTimings())

    assert found.restarts == ()
    assert found.operation is not None
    assert found.operation.message.endswith(f"; waiting for node c-b-0: its {words}")
    assert found.operation.blocked_by == ("c-b-0",)


CLOSED = RollTimings(windows=WindowState(closed="the next window opens at 2026-01-02T00:00:00+00:00"))


def test_closed_window_delays_restarts_that_are_not_urgent() -> None:
    now = desired(image="new")

    found = roll(now, observed(desired()), view(SPREAD), None, CLOSED)

    assert found.restarts == ()
    assert found.obstacle == Underway(
        "WindowClosed", "7 nodes have to be restarted; the next window opens at 2026-01-02T00:00:00+00:00"
    )
    assert found.operation is not None
    assert found.operation.step == "WindowClosed"
    assert of_brokers(roll(now, observed(desired()), view(SPREAD), None, RollTimings())) == [20]


def test_requested_restart_waits_for_no_window() -> None:
    found = roll(desired(restart="now"), observed(desired()), view(SPREAD), None, CLOSED)

    assert of_brokers(found) == [20]
    assert found.restarts[0].reason == "annotation ottla.dev/restart"


def test_node_that_is_broken_waits_for_no_window() -> None:
    now = desired(image="new")
    failed = replace(observed(desired())["c-b-1"], state=NodeState.FAILED)

    assert of_brokers(roll(now, observed(desired(), b1=failed), view(SPREAD), None, CLOSED)) == [1]


def begun(now: DesiredCluster) -> Record:
    """Return the record of a roll that has restarted the controller."""
    found = roll(now, observed(desired()), view(SPREAD), None, RollTimings())
    record = follow(None, found.operation, now=NOW)
    assert record is not None
    assert record.nodes == ("c-q-0",)
    return record


@pytest.mark.parametrize(("age_s", "step"), [(599, "Restarting"), (600, "Stuck")])
def test_node_that_is_not_ready_for_long_halts_the_roll(age_s: int, step: str) -> None:
    now = desired(image="new")
    starting = replace(observed(now)["c-q-0"], state=NodeState.STARTING, message="it has no leader")
    nodes = observed(desired(), q0=starting)

    found = roll(now, nodes, view(SPREAD), begun(now), RollTimings(step_age_s=age_s))

    assert found.restarts == ()
    assert found.operation is not None
    assert found.operation.step == step
    assert isinstance(found.obstacle, Halted) == (step == "Stuck")
    record = follow(begun(now), found.operation, now=NOW)
    again = roll(now, nodes, view(SPREAD), record, RollTimings(step_age_s=0 if step == "Stuck" else age_s))
    assert again.operation is not None
    assert again.operation.step == step


@pytest.mark.parametrize(
    ("spec", "known", "way"),
    [
        pytest.param({"image": "bad"}, {"version": "0.1.0"}, "write image: r:0.1.0, which", id="image"),
        pytest.param({"version": "0.2.0"}, {"version": "0.1.0"}, "write version: 0.1.0, which", id="version"),
        pytest.param(
            {"version": "0.1.0", "image": "bad"},
            {"version": "0.1.0"},
            "write version: 0.1.0 and remove image, which",
            id="image-over-a-version",
        ),
        pytest.param(
            {"version": "0.2.0"},
            {"image": "mine:1"},
            "write image: mine:1, which all nodes ran when they were last ready (kubectl ottla undo); an image wins "
            "over version until it is removed again",
            id="no-version-means-what-ran",
        ),
        pytest.param({"config": {"a": "1"}}, {"version": "0.1.0"}, "put back what was changed", id="something-else"),
    ],
)
def test_halted_roll_names_the_rollback(spec: dict[str, Any], known: dict[str, str], way: str) -> None:
    now = desired(**spec, known=known)
    failed = replace(observed(now)["c-q-0"], state=NodeState.FAILED)

    found = roll(now, observed(desired(), q0=failed), view(SPREAD), begun(now), RollTimings())

    assert isinstance(found.obstacle, Halted)
    assert f"; correct the spec, or {way}" in found.obstacle.message


def rejected(node: ObservedNode) -> ObservedNode:
    return replace(node, rejection="exceeded quota")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("b0", rejected, id="before-the-first-stop"),
        pytest.param("b5", rejected, id="another-node"),
        pytest.param("b5", lambda it: replace(rejected(it), state=NodeState.FAILED, revision=None), id="one-is-down"),
        pytest.param("b0", lambda it: replace(rejected(it), state=NodeState.FAILED), id="one-that-fails"),
    ],
)
def test_no_node_is_stopped_while_the_host_rejects_a_run(
    name: str, change: Callable[[ObservedNode], ObservedNode]
) -> None:
    now, before = desired(config={"queued.max.requests": "9"}), observed(desired())
    nodes = observed(desired(), q0=observed(now)["c-q-0"], **{name: change(before[f"c-b-{name[1:]}"])})

    found = roll(now, nodes, view(SPREAD), None, RollTimings())

    assert found.restarts == ()
    assert isinstance(found.obstacle, Waiting)
    assert "exceeded quota" in found.obstacle.message
    assert found.operation is not None
    assert found.operation.blocked_by == (f"c-b-{name[1:]}",)


def test_failing_node_of_another_pool_is_restarted_all_the_same() -> None:
    now, before = desired(config={"queued.max.requests": "9"}), observed(desired())
    failing = replace(before["c-q-0"], state=NodeState.FAILED)
    nodes = observed(desired(), q0=failing, b0=rejected(before["c-b-0"]))

    assert [it.node.name for it in roll(now, nodes, view(SPREAD), None, RollTimings()).restarts] == ["c-q-0"]


def test_node_that_fails_without_a_roll_is_no_halted_roll() -> None:
    failed = replace(observed(desired())["c-b-1"], state=NodeState.FAILED)

    assert roll(desired(), observed(desired(), b1=failed), view(SPREAD), None, RollTimings()) == Roll()

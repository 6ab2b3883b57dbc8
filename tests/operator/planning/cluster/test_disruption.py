"""The disruption budget: one node while the cluster is whole, none otherwise, and none during a restart."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from places import place_of

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Rejected
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.model.operation import Operation, OperationKind
from ottla_operator.planning.cluster.disruption import with_disruptions
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.cluster import LimitDisruptions, Publish, RestartNode
from ottla_operator.ports.cluster_view import ClusterView, PartitionView, QuorumMember
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster


@pytest.fixture
def desired(cluster_manifest: Callable[..., dict[str, Any]]) -> DesiredCluster:
    manifest = cluster_manifest(nodes=3)
    manifest["status"] = {"clusterId": "AAAAAAAAAAAAAAAAAAAAAA", "initialControllers": []}
    return desired_cluster(Cluster.parse(manifest), place_of)


UNVERIFIED = "listener out presents a certificate without 10.0.0.2, its advertised host"


def observed(desired: DesiredCluster, allowed: int | None, **states: NodeState) -> ObservedCluster:
    nodes = {
        it.name: ObservedNode(name=it.name, state=states.get(it.name[-1], NodeState.READY), revision=it.revision)
        for it in desired.nodes
    }
    return ObservedCluster(outdated=(), nodes=nodes, disruptions_allowed=allowed)


def partition(isr: tuple[int, ...] = (0, 1, 2), adding: tuple[int, ...] = ()) -> PartitionView:
    return PartitionView(
        partition=TopicPartition("flights", 0), leader=isr[0], replicas=(0, 1, 2), isr=isr, adding=adding
    )


def view(*partitions: PartitionView, fenced: int = -1, behind: int = -1) -> ClusterView:
    return ClusterView(
        cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
        brokers={number: number == fenced for number in range(3)},
        controller_id=0,
        voters=tuple(
            QuorumMember(node_id=number, directory_id="d", is_caught_up=number != behind) for number in range(3)
        ),
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("seen", "states", "reason"),
    [
        pytest.param(view(partition()), {}, "", id="whole"),
        pytest.param(view(partition((0, 1), adding=(2,))), {}, "", id="a-replica-that-comes-has-not-everything-yet"),
        pytest.param(view(), {"1": NodeState.STARTING}, "node demo-main-1 is not ready", id="node-comes-up"),
        pytest.param(view(), {"2": NodeState.UNREADY}, "node demo-main-2 is not ready", id="node-is-not-ready"),
        pytest.param(None, {}, "no broker responds", id="no-view"),
        pytest.param(view(fenced=2), {}, "broker 2 has not joined", id="broker-is-fenced"),
        pytest.param(view(behind=1), {}, "voters 1 do not follow", id="voter-is-behind"),
        pytest.param(
            view(partition(), partition((0, 2))),
            {},
            "1 partitions lack replicas in sync (first: flights-0)",
            id="ready-and-not-caught-up",
        ),
    ],
)
def test_one_node_may_be_stopped_while_the_cluster_is_whole(
    desired: DesiredCluster, seen: ClusterView | None, states: dict[str, NodeState], reason: str
) -> None:
    (step,) = with_disruptions(Plan(), desired, observed(desired, -1, **states), seen).steps

    assert isinstance(step, LimitDisruptions)
    assert step.allowed == (0 if reason else 1)
    assert reason in str(step)


def test_node_whose_next_pod_is_rejected_must_not_be_evicted(desired: DesiredCluster) -> None:
    seen = observed(desired, 1)
    nodes = dict(seen.nodes) | {"demo-main-1": replace(seen.nodes["demo-main-1"], rejection="exceeded quota")}

    (step,) = with_disruptions(Plan(), desired, replace(seen, nodes=nodes), view()).steps

    assert isinstance(step, LimitDisruptions)
    assert (step.allowed, step.reason) == (0, "node demo-main-1 would not come up again: exceeded quota")


def test_clients_outside_count_as_well(desired: DesiredCluster) -> None:
    seen = observed(desired, 1)
    nodes = dict(seen.nodes) | {"demo-main-1": replace(seen.nodes["demo-main-1"], unverified=UNVERIFIED)}

    (step,) = with_disruptions(Plan(), desired, replace(seen, nodes=nodes), view()).steps

    assert isinstance(step, LimitDisruptions)
    assert (step.allowed, step.reason) == (0, f"node demo-main-1: its {UNVERIFIED}")


@pytest.mark.parametrize(
    ("allowed", "is_whole"),
    [
        pytest.param(1, True, id="open"),
        pytest.param(0, False, id="closed"),
        pytest.param(None, True, id="no-budget"),
        pytest.param(None, False, id="no-budget-and-not-whole"),
    ],
)
def test_budget_that_is_right_is_left_alone(desired: DesiredCluster, allowed: int | None, is_whole: bool) -> None:
    plan, seen = Plan(), view() if is_whole else view(fenced=0)

    assert with_disruptions(plan, desired, observed(desired, allowed), seen) is plan


@pytest.mark.parametrize("allowed", [1, -1, 2])
def test_restart_waits_until_the_disruption_budget_is_closed(desired: DesiredCluster, allowed: int) -> None:
    publish, restart = Publish(desired, ("x",)), RestartNode(desired.nodes[0], "its configuration changed")
    operation = Operation(
        kind=OperationKind.ROLL, target="t", step="Restarting", message="", left=1, generation=1, takes_step=True
    )
    plan = Plan((publish, restart), operation=operation)

    first = with_disruptions(plan, desired, observed(desired, allowed), view())
    second = with_disruptions(plan, desired, observed(desired, 0), view())

    assert first.steps == (publish, LimitDisruptions(desired, 0, str(restart)))
    assert first.operation == replace(operation, takes_step=False), "an attempt is one that is executed"
    assert second is plan


def test_rejected_spec_changes_nothing(desired: DesiredCluster) -> None:
    plan = Plan(obstacle=Rejected("R", "m"))

    assert with_disruptions(plan, desired, observed(desired, -1), view()) is plan

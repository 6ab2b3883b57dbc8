"""Volumes of nodes that have left: deleted only by policy, and only when no broker knows the node any more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.types import TopicPartition
from ottla_operator.model import kubernetes_objects
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.planning.cluster.volumes import next_removal
from ottla_operator.planning.steps.cluster import RemoveVolumes
from ottla_operator.ports.cluster_view import ClusterView, PartitionView, QuorumMember
from ottla_operator.ports.volume_claims import ObservedClaim

Document = dict[str, Any]
Builder = Callable[..., Document]
GONE = (
    ObservedClaim(name="data-demo-main-3", uid="u3", node="demo-main-3"),
    ObservedClaim(name="d1-demo-main-3", uid="u4", node="demo-main-3"),
)
FIRST = ObservedClaim(name="data-demo-main-0", uid="u0", node="demo-main-0")


def desired(manifest: Document, *leaving: str) -> DesiredCluster:
    cluster = Cluster.parse({**manifest, "status": {"clusterId": "c", "initialControllers": []}})
    return desired_cluster(cluster, lambda pool, n, _: kubernetes_objects.place(cluster, pool, n), leaving=leaving)


def view(**changes: Any) -> ClusterView:
    voters = tuple(QuorumMember(node_id=node, directory_id="d", is_caught_up=True) for node in range(3))
    before = ClusterView(cluster_id="c", brokers=dict.fromkeys(range(3), False), controller_id=0, voters=voters)
    return replace(before, **changes)


@pytest.fixture
def three(cluster_manifest: Builder) -> Callable[..., DesiredCluster]:
    return lambda policy, *leaving: desired(
        cluster_manifest(nodes=3, storage={"size": "1Gi", "onScaleDown": policy}), *leaving
    )


def test_all_volumes_of_a_node_that_has_left_are_deleted(three: Callable[..., DesiredCluster]) -> None:
    step = next_removal(three("Delete"), (FIRST, *GONE), frozenset(), view())

    assert step == RemoveVolumes(GONE)
    assert str(step) == "remove volumes data-demo-main-3, d1-demo-main-3"


def test_volumes_stay_unless_asked_for(three: Callable[..., DesiredCluster]) -> None:
    assert next_removal(three("Retain"), (FIRST, *GONE), frozenset(), view()) is None


MEMBER = QuorumMember(node_id=3, directory_id="d", is_caught_up=True)
HELD = PartitionView(partition=TopicPartition("t", 0), leader=0, replicas=(0, 3), isr=(0,))


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(view(brokers={0: False, 3: True}), id="still-registered"),
        pytest.param(view(voters=(MEMBER,)), id="still-a-voter"),
        pytest.param(view(partitions=(HELD,)), id="still-a-replica"),
        pytest.param(None, id="brokers-do-not-respond"),
    ],
)
def test_volumes_stay_while_brokers_know_their_node(
    three: Callable[..., DesiredCluster], seen: ClusterView | None
) -> None:
    assert next_removal(three("Delete"), GONE, frozenset(), seen) is None


def test_volumes_are_deleted_while_the_quorum_lists_a_former_observer(three: Callable[..., DesiredCluster]) -> None:
    assert next_removal(three("Delete"), GONE, frozenset(), view(observers=(MEMBER,))) == RemoveVolumes(GONE)


def test_volumes_stay_while_their_node_runs_or_is_drained(three: Callable[..., DesiredCluster]) -> None:
    assert next_removal(three("Delete"), GONE, frozenset({"demo-main-3"}), view()) is None
    assert next_removal(three("Delete", "demo-main-3"), GONE, frozenset(), view()) is None


def test_volumes_of_no_pool_stay(three: Callable[..., DesiredCluster]) -> None:
    stranger = ObservedClaim(name="data-demo-other-9", uid="u9", node="demo-other-9")

    assert next_removal(three("Delete"), (stranger,), frozenset(), view()) is None

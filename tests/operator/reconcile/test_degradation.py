"""When a Cluster is degraded, and when what is missing is so on purpose."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from places import place_of

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Degradation
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.reconcile.degradation import degradation
from ottla_operator.reconcile.nodes import NodeState, ObservedNode
from ottla_operator.reconcile.view import ClusterView, PartitionView, QuorumMember

NAMES = ("c-main-0", "c-main-1", "c-main-2")


def desired(initial: tuple[int, ...] = ()) -> DesiredCluster:
    document = {
        "kind": "Cluster",
        "metadata": {"name": "c"},
        "spec": {"pools": [{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}]},
        "status": {"clusterId": "c", "initialControllers": initial},
    }
    return desired_cluster(Cluster.parse(document), place_of)


def observed(*missing: str, **states: NodeState) -> dict[str, ObservedNode]:
    """Return what the host has: all ready but ``missing``, which are not there, and ``n0=...``."""
    return {
        name: ObservedNode(name=name, state=states.get(f"n{name[-1]}", NodeState.READY), message="words")
        for name in NAMES
        if name not in missing
    }


def view(
    *, fenced: Iterable[int] = (), behind: Iterable[int] = (), isr: tuple[int, ...] = (0, 1, 2), leader: int = 0
) -> ClusterView:
    partition = PartitionView(partition=TopicPartition("t", 0), leader=leader, replicas=(0, 1, 2), isr=isr)
    return ClusterView(
        cluster_id="c",
        brokers={number: number in fenced for number in range(3)},
        controller_id=0,
        voters=tuple(
            QuorumMember(node_id=number, directory_id="d", is_caught_up=number not in behind) for number in range(3)
        ),
        partitions=(partition,),
    )


def reason(found: Degradation | None) -> str | None:
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("nodes", "seen", "expected"),
    [
        pytest.param(observed(), view(), None, id="whole"),
        pytest.param(observed(n1=NodeState.UNREADY), view(), "NodesDown", id="unready"),
        pytest.param(observed(n1=NodeState.FAILED), view(), "NodesDown", id="failed"),
        pytest.param(observed("c-main-1"), view(), "NodesDown", id="missing"),
        pytest.param(observed(), view(fenced=[2]), "NodesDown", id="fenced"),
        pytest.param(observed(), view(behind=[1]), "VotersBehind", id="voter-behind"),
        pytest.param(observed(), replace(view(), controller_id=-1), "QuorumLost", id="quorum-lost"),
        pytest.param(observed(), view(isr=(0, 1)), "UnderReplicated", id="under-replicated"),
        pytest.param(observed(), view(leader=-1), "PartitionsOffline", id="offline"),
        pytest.param(observed(), None, "BrokersUnreachable", id="unreachable"),
    ],
)
def test_what_serves_less_is_degraded(
    nodes: dict[str, ObservedNode], seen: ClusterView | None, expected: str | None
) -> None:
    assert reason(degradation(desired(), nodes, seen, ())) == expected


@pytest.mark.parametrize(
    ("nodes", "seen"),
    [
        pytest.param(observed(n1=NodeState.STARTING), view(fenced=[1], isr=(0, 2), behind=[1]), id="restarted"),
        pytest.param(observed(), view(isr=(0, 2)), id="catching-up"),
        pytest.param(observed(n1=NodeState.STARTING), None, id="nobody-else-to-ask"),
    ],
)
def test_what_the_operator_is_at_is_not_degraded(nodes: dict[str, ObservedNode], seen: ClusterView | None) -> None:
    assert degradation(desired(), nodes, seen, ("c-main-1",)) is None
    assert degradation(desired(), nodes, seen, ()) is not None


def test_other_node_that_is_down_beside_the_one_on_purpose_is_degraded() -> None:
    nodes = observed(n1=NodeState.STARTING, n2=NodeState.FAILED)

    found = degradation(desired(), nodes, view(fenced=[1, 2], isr=(0,)), ("c-main-1",))

    assert found == Degradation("NodesDown", "node c-main-2: words")


def test_cluster_that_never_served_is_not_degraded() -> None:
    assert degradation(desired(initial=(0, 1, 2)), observed(n0=NodeState.FAILED), None, ()) is None


def test_new_node_that_has_not_joined_yet_is_not_degraded() -> None:
    seen = view()
    without = replace(seen, brokers={0: False, 1: False}, voters=seen.voters[:2], partitions=())

    assert degradation(desired(), observed(n2=NodeState.STARTING), without, ()) is None


def test_replica_that_comes_is_not_missed() -> None:
    moving = PartitionView(
        partition=TopicPartition("t", 0), leader=0, replicas=(0, 2, 1), isr=(0, 1), adding=(2,), removing=(1,)
    )

    assert degradation(desired(), observed(), replace(view(), partitions=(moving,)), ()) is None

"""When a Cluster is Degraded, and which outages are intended."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from places import place_of

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Degradation
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.planning.cluster.degradation import degradation
from ottla_operator.ports.cluster_view import ClusterView, PartitionView, QuorumMember
from ottla_operator.ports.nodes import NodeState, ObservedNode

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
    """Return the host's view: all ready except ``missing``, which do not exist, and ``n0=...``."""
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


UNREADY, FAILED, STARTING, STOPPED = NodeState.UNREADY, NodeState.FAILED, NodeState.STARTING, NodeState.STOPPED


@pytest.mark.parametrize(
    ("nodes", "seen", "expected"),
    [
        pytest.param(observed(), view(), None, id="whole"),
        pytest.param(observed(n1=NodeState.UNREADY), view(), "NodesDown", id="unready"),
        pytest.param(observed(n1=NodeState.FAILED), view(), "NodesDown", id="failed"),
        pytest.param(observed("c-main-1"), view(), "NodesDown", id="missing"),
        pytest.param(observed(), view(fenced=[2]), "NodesDown", id="fenced"),
        pytest.param(observed(), view(behind=[1]), "VotersBehind", id="voter-behind"),
        pytest.param(observed(), view(isr=(0, 1)), "UnderReplicated", id="under-replicated"),
        pytest.param(observed(), view(leader=-1), "PartitionsOffline", id="offline"),
        pytest.param(observed(), None, "BrokersUnreachable", id="unreachable"),
    ],
)
def test_lost_capacity_is_degraded(
    nodes: dict[str, ObservedNode], seen: ClusterView | None, expected: str | None
) -> None:
    assert reason(degradation(desired(), nodes, seen, ())) == expected


@pytest.mark.parametrize(
    ("nodes", "seen"),
    [
        pytest.param(observed(n1=NodeState.STARTING), view(fenced=[1], isr=(0, 2), behind=[1]), id="restarted"),
        pytest.param(observed(), view(isr=(0, 2)), id="catching-up"),
        pytest.param(observed(n1=NodeState.STARTING), None, id="no-other-broker"),
    ],
)
def test_intended_outage_is_not_degraded(nodes: dict[str, ObservedNode], seen: ClusterView | None) -> None:
    assert degradation(desired(), nodes, seen, ("c-main-1",)) is None
    assert degradation(desired(), nodes, seen, ()) is not None


def test_unintended_outage_next_to_an_intended_one_is_degraded() -> None:
    nodes = observed(n1=NodeState.STARTING, n2=NodeState.FAILED)

    found = degradation(desired(), nodes, view(fenced=[1, 2], isr=(0,)), ("c-main-1",))

    assert found == Degradation("NodesDown", "node c-main-2: words")


def test_cluster_that_never_served_is_not_degraded() -> None:
    assert degradation(desired(initial=(0, 1, 2)), observed(n0=NodeState.FAILED), None, ()) is None


def test_new_node_that_has_not_joined_yet_is_not_degraded() -> None:
    seen = view()
    without = replace(seen, brokers={0: False, 1: False}, voters=seen.voters[:2], partitions=())

    assert degradation(desired(), observed(n2=NodeState.STARTING), without, ()) is None


def test_replica_that_is_being_added_is_not_under_replication() -> None:
    moving = PartitionView(
        partition=TopicPartition("t", 0), leader=0, replicas=(0, 2, 1), isr=(0, 1), adding=(2,), removing=(1,)
    )

    assert degradation(desired(), observed(), replace(view(), partitions=(moving,)), ()) is None


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(observed("c-main-1", "c-main-2", n0=UNREADY), "QuorumLost", id="two-are-gone"),
        pytest.param(observed(n0=UNREADY, n1=FAILED, n2=STOPPED), "QuorumLost", id="two-have-ended"),
        pytest.param(observed(n0=UNREADY, n1=UNREADY, n2=UNREADY), "QuorumLost", id="all-have-served-and-do-not"),
        pytest.param(observed(n1=UNREADY, n2=UNREADY), "NodesDown", id="one-serves-and-does-not-respond"),
        pytest.param(observed("c-main-2"), "NodesDown", id="one-is-gone"),
        pytest.param(observed(n0=UNREADY, n1=STARTING, n2=STARTING), "NodesDown", id="two-come-up"),
    ],
)
def test_quorum_is_lost_with_the_majority_of_its_controllers(
    nodes: dict[str, ObservedNode], expected: str | None
) -> None:
    assert reason(degradation(desired(), nodes, None, ())) == expected


def test_lost_quorum_names_missing_controllers_and_advice() -> None:
    found = degradation(desired(), observed("c-main-2", n0=UNREADY, n1=FAILED), None, ())

    assert found == Degradation(
        "QuorumLost",
        "the metadata quorum has no leader: 2 of 3 controllers do not run: node c-main-1: words; "
        "node c-main-2: it is not there; bring back at least 1 of them with its own volume: until then nothing can be "
        "changed and no partition gets another leader",
    )


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        pytest.param(observed(n1=FAILED), "1 of 3 controllers are not ready: node c-main-1", id="one-has-ended"),
        pytest.param(observed(), "all 3 controllers run", id="all-run"),
    ],
)
def test_quorum_is_lost_when_brokers_report_no_leader(nodes: dict[str, ObservedNode], words: str) -> None:
    found = degradation(desired(), nodes, None, (), is_leaderless=True)

    assert found is not None
    assert found.reason == "QuorumLost"
    assert words in found.message


def test_quorum_without_the_controller_that_the_operator_restarts_is_not_degraded() -> None:
    assert degradation(desired(), observed(n1=STARTING), None, ("c-main-1",), is_leaderless=True) is None

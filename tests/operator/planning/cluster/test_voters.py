"""Changes of voters, from the list of the quorum's leader, which includes stopped replicas for minutes."""

import pytest
from places import place_of

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, desired_cluster
from ottla_operator.planning.cluster.voters import next_change
from ottla_operator.planning.steps.cluster import AddVoter, RemoveVoter
from ottla_operator.ports.cluster_view import ClusterView, QuorumMember


def fetching(node_id: int, directory_id: str = "first") -> QuorumMember:
    return QuorumMember(node_id=node_id, directory_id=directory_id, is_caught_up=True)


def silent(node_id: int, directory_id: str = "first") -> QuorumMember:
    return QuorumMember(node_id=node_id, directory_id=directory_id, is_caught_up=False)


@pytest.fixture
def three() -> DesiredCluster:
    document = {
        "apiVersion": "ottla.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "demo"},
        "spec": {"pools": [{"name": "main", "nodes": 3, "storage": {"size": "1Gi"}}]},
        "status": {"clusterId": "c", "initialControllers": []},
    }
    return desired_cluster(Cluster.parse(document), place_of)


def view(voters: list[QuorumMember], observers: list[QuorumMember]) -> ClusterView:
    return ClusterView(
        cluster_id="c", brokers={}, controller_id=0, voters=tuple(voters), observers=tuple(observers), partitions=()
    )


@pytest.mark.parametrize(
    ("voter", "observers", "leaves"),
    [
        pytest.param(silent(1), [fetching(1, "second")], True, id="new-disk-follows"),
        pytest.param(fetching(1, "second"), [silent(1, "first")], False, id="old-disk-is-listed"),
        pytest.param(silent(1), [], False, id="node-is-down"),
        pytest.param(silent(1), [fetching(7, "second")], False, id="of-another-id"),
    ],
)
def test_voter_leaves_when_its_node_follows_from_another_directory(
    three: DesiredCluster, voter: QuorumMember, observers: list[QuorumMember], leaves: bool
) -> None:
    others = [fetching(number) for number in range(3) if number != voter.node_id]

    change = next_change(three, view([voter, *others], observers))

    assert change == (RemoveVoter(1, "first") if leaves else None)


@pytest.mark.parametrize(
    ("voter", "observer"),
    [
        pytest.param(fetching(1), fetching(1, "second"), id="both-had-everything-a-moment-ago"),
        pytest.param(silent(1), silent(1, "second"), id="neither-has-everything"),
    ],
)
def test_outdated_entry_of_two_is_waited_for(
    three: DesiredCluster, voter: QuorumMember, observer: QuorumMember
) -> None:
    change = next_change(three, view([fetching(0), voter, fetching(2)], [observer]))

    assert isinstance(change, Waiting)
    assert "demo-main-1" in change.message


@pytest.mark.parametrize("past", [silent(1, "old"), silent(1, "zzz")], ids=["sorted-before", "sorted-after"])
def test_directory_that_joins_is_the_one_that_follows(three: DesiredCluster, past: QuorumMember) -> None:
    observers = sorted([fetching(1, "second"), past], key=lambda it: it.directory_id)

    change = next_change(three, view([fetching(0), fetching(2)], observers))

    assert isinstance(change, AddVoter)
    assert change.directory_id == "second"


def test_no_voter_joins_while_two_directories_of_an_id_seem_to_follow(three: DesiredCluster) -> None:
    change = next_change(three, view([fetching(0), fetching(2)], [fetching(1, "old"), fetching(1, "second")]))

    assert isinstance(change, Waiting)

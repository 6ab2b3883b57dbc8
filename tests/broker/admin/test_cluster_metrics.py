"""Metrics of several nodes: the quorum's roles, the controllers' view of the cluster, the leaders' of followers."""

import pytest

from ottla.admin.exposition import node_metrics
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.world.cluster import Cluster

Figures = dict[tuple[str, str], float]


@pytest.fixture
def cluster() -> Cluster:
    """Three combined nodes, a broker, and a topic on three of them."""
    made = Cluster(seed=5, brokers=4, controllers=3)
    made.start()
    made.run_until_ready()
    create_topic(made.connect(1), "t", partitions=4, replicas=3)
    made.run(2_000)
    return made


def figures(cluster: Cluster, node_id: int) -> Figures:
    """Return every sample by its name and its first label's value."""
    taken: list[NodeSnapshot] = []
    for _ in take_snapshot(cluster.nodes[node_id].node, taken):
        pass
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in node_metrics(taken[0], loop_delay_s=0)
        for sample in family.samples
    }


def test_quorum_roles_are_shown(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    states = {
        node_id: next(
            state for (name, state) in figures(cluster, node_id) if name.endswith("raftmetrics_current_state")
        )
        for node_id in cluster.nodes
    }

    assert states == {
        node_id: "leader" if node_id == leader else "observer" if node_id == 4 else "follower"
        for node_id in cluster.nodes
    }
    for node_id in cluster.nodes:
        shown = figures(cluster, node_id)
        assert shown["kafka_server_raftmetrics_current_leader", ""] == leader
        assert shown["kafka_server_raftmetrics_number_of_voters", ""] == 3


def test_one_controller_is_active_and_all_see_the_cluster(cluster: Cluster) -> None:
    name = "kafka_controller_kafkacontroller_"
    shown = {node_id: figures(cluster, node_id) for node_id in cluster.nodes}

    assert [shown[node_id][name + "activecontrollercount", ""] for node_id in (1, 2, 3)].count(1) == 1
    assert all(shown[node_id][name + "activebrokercount", ""] == 4 for node_id in (1, 2, 3))
    assert (name + "activecontrollercount", "") not in shown[4]
    assert shown[1]["ottla_replicas", "online"] == 12


def test_lost_broker_is_visible_on_all_nodes(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    assert leader is not None
    cluster.kill(4)
    cluster.run(2_000)
    survivors = [figures(cluster, node_id) for node_id in (1, 2, 3)]
    active = figures(cluster, leader)

    under = [shown["kafka_server_replicamanager_underreplicatedpartitions", ""] for shown in survivors]
    assert sum(under) == active["ottla_under_replicated_partitions", ""] == 3
    assert active["kafka_controller_kafkacontroller_fencedbrokercount", ""] == 1
    assert active["kafka_controller_kafkacontroller_offlinepartitionscount", ""] == 0
    assert active["ottla_brokers_fenced_total", "refused"] == 1
    assert active["ottla_replicas", "offline"] == 3

"""A broker whose host was replaced while it hung, and that continues: no replica follows it, and it does no harm."""

from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.invariants.cluster_invariants import INVARIANTS
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.types import NodeId


def watched(cluster: Cluster) -> StateObserver:
    """Return a state observer of all nodes but the stale one, which is allowed to lag."""
    state_observer = StateObserver(cluster)
    state_observer.invariants = [invariant(state_observer) for invariant in INVARIANTS]

    def observe(place: SimulatedNode) -> None:
        if place.node_id > 0:
            state_observer.observe_node(place)

    cluster.before_start = state_observer.before_start
    cluster.on_event = observe
    return state_observer


def test_stale_incarnation_acknowledges_nothing_and_cannot_register_again() -> None:
    cluster = Cluster(seed=5, controllers=1, combined=False)
    state_observer = watched(cluster)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(2), "t", replicas=3)
    cluster.run_until(lambda: "t" in state_observer.image.topics.by_name)

    def registration() -> PartitionRegistration:
        return state_observer.image.topics.by_name["t"].partitions[0]

    def send(node_id: NodeId, value: bytes) -> int:
        client = cluster.connect(node_id)
        return produce(client, "t", batch_of(client, [value]), acks=-1).error_code

    cluster.run(1_000)
    hung = registration().leader
    assert send(hung, b"before") == ErrorCode.NONE
    cluster.freeze(hung)
    cluster.run_until(lambda: registration().leader not in (hung, -1))
    stale = cluster.replace_host(hung)
    cluster.start(hung)
    cluster.run_until(lambda: len(registration().isr) == 3)
    registered = state_observer.image.cluster.brokers[hung]
    assert send(registration().leader, b"after") == ErrorCode.NONE

    cluster.thaw(-hung)
    assert stale.process is not None
    assert stale.process.replicas.get("t", 0).is_leader, "it has not read newer metadata yet"
    assert send(-hung, b"lost") != ErrorCode.NONE
    cluster.run(30_000)

    assert state_observer.image.cluster.brokers[hung] == registered
    assert len(registration().isr) == 3
    assert send(registration().leader, b"at last") == ErrorCode.NONE
    for node_id in registration().replicas:
        found = records_in(fetch(cluster.connect(node_id), "t", 0)) if node_id == registration().leader else []
        assert [record.value for record in found] in ([], [b"before", b"after", b"at last"])

"""A node that responds to nothing, stalled or stopped, is replaced long before its session ends."""

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.replication.metrics import sample_replication
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import NodeId

STALL_MS = 1_500
"""Default of ottla.loop.stall.disconnect.ms."""
TAKE_OVER_MS = 1_000
SILENCE_MS = 1_700
"""A ping after 0.5 s, ottla.broker.response.timeout.ms, and the elections."""
CONTROLLER_SILENCE_MS = 2_600
"""controller.quorum.fetch.timeout.ms, the quorum's election, and a quarter of ottla.broker.response.timeout.ms."""
ISOLATED_MS = 2_600
"""controller.quorum.fetch.timeout.ms, and a fetch that was waiting; the followers are silent for longer by then."""
FETCH_TIMEOUT_MS = 30_000
LINK_SILENCE_MS = 2_000
"""A fetch that waits, ottla.broker.response.timeout.ms, and the change of the in-sync set."""
HEARTBEAT_MS = 2_000
"""Default of broker.heartbeat.interval.ms."""
SESSION_MS = 9_000


class World:
    """Three combined nodes, and a topic with a leader on each."""

    def __init__(self, seed: int) -> None:
        self.cluster = cluster = Cluster(seed=seed, controllers=3, combined=True)
        self.observer = StateObserver(cluster)
        cluster.before_start, cluster.on_event = self.observer.before_start, self.observer.observe_node
        cluster.start()
        cluster.run_until_ready()
        active = cluster.leader_id()
        assert active is not None
        self.active = active
        create_topic(cluster.connect(active), "t", partitions=3, replicas=3)
        cluster.run_until(lambda: "t" in self.observer.image.topics.by_name)
        cluster.run(1_000)
        assert {each.leader for each in self.partitions()} == set(cluster.nodes)

    def victim(self, *, is_controller: bool) -> NodeId:
        return self.active if is_controller else next(each for each in self.cluster.nodes if each != self.active)

    def partitions(self) -> list[PartitionRegistration]:
        return list(self.observer.image.topics.by_name["t"].partitions.values())

    def send(self, value: bytes, timeout_ms: int = 1_000) -> None:
        """Produce to each partition, acknowledged by every replica in sync."""
        for index, partition in enumerate(self.partitions()):
            client = self.cluster.connect(partition.leader)
            response = produce(client, "t", batch_of(client, [value]), partition=index, acks=-1, timeout_ms=timeout_ms)
            assert response.error_code == ErrorCode.NONE

    def is_replaced(self, victim: NodeId) -> bool:
        return all(victim not in each.isr for each in self.partitions())

    def thaw(self, victim: NodeId) -> None:
        """Continue the process, and wait until it is in sync again."""
        self.cluster.thaw(victim)
        self.cluster.run_until(lambda: not self.is_replaced(victim))

    def check(self, values: list[bytes], *, limit_ms: int = 10_000) -> None:
        """Wait for every replica to be in sync, and compare the records of each partition."""
        self.cluster.run_until(lambda: all(len(each.isr) == 3 for each in self.partitions()), limit_ms=limit_ms)
        for index, partition in enumerate(self.partitions()):
            records = records_in(fetch(self.cluster.connect(partition.leader), "t", 0, partition=index))
            assert [record.value for record in records] == values


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("seed", range(3))
def test_stalled_node_is_replaced_when_it_disconnects_and_returns(seed: int, is_controller: bool) -> None:
    world = World(seed)
    cluster, victim = world.cluster, world.victim(is_controller=is_controller)
    world.send(b"before")

    cluster.freeze(victim)
    cluster.run(STALL_MS)
    cluster.disconnect(victim)
    cluster.run(TAKE_OVER_MS)
    assert world.is_replaced(victim)
    world.send(b"meanwhile")
    cluster.run(SESSION_MS)

    world.thaw(victim)
    world.send(b"after")
    world.check([b"before", b"meanwhile", b"after"])


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("seed", range(3))
def test_stopped_node_is_replaced_when_it_does_not_respond_and_returns(seed: int, is_controller: bool) -> None:
    """Its kernel still accepts connections and bytes."""
    world = World(seed)
    cluster, victim = world.cluster, world.victim(is_controller=is_controller)
    world.send(b"before")

    cluster.freeze(victim)
    cluster.run(CONTROLLER_SILENCE_MS if is_controller else SILENCE_MS)
    assert world.is_replaced(victim)
    world.send(b"meanwhile")

    world.thaw(victim)
    world.send(b"after")
    world.check([b"before", b"meanwhile", b"after"])


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("direction", ["to", "from", "both"])
def test_node_behind_a_network_that_drops_packets_is_replaced(direction: str, is_controller: bool) -> None:
    world = World(1)
    cluster, victim = world.cluster, world.victim(is_controller=is_controller)
    chaos = NetworkChaos(SeededRandom(1), fastest_ms=1, slowest_ms=1)
    cluster.fabric.conditions = chaos
    world.send(b"before")
    for other in cluster.nodes.values():
        if other.node_id != victim and direction != "from":
            chaos.cut(other.host, cluster.nodes[victim].host)
        if other.node_id != victim and direction != "to":
            chaos.cut(cluster.nodes[victim].host, other.host)

    cluster.run(CONTROLLER_SILENCE_MS if is_controller else SILENCE_MS)
    if direction == "to":
        # One more heartbeat leaves the node, until the missing response to it holds the next one back.
        cluster.run(HEARTBEAT_MS)
    assert world.is_replaced(victim)
    world.send(b"meanwhile")


def test_node_that_reaches_the_controller_again_but_no_leader_delays_no_commit() -> None:
    """It is unfenced by its heartbeats, and was caught up a moment ago; but it cannot fetch."""
    world = World(1)
    cluster, victim = world.cluster, world.victim(is_controller=False)
    chaos = NetworkChaos(SeededRandom(1), fastest_ms=1, slowest_ms=1)
    cluster.fabric.conditions = chaos
    world.send(b"before")
    host = cluster.nodes[victim].host
    others = [other for other in cluster.nodes.values() if other.node_id != victim]
    for other in others:
        chaos.cut(other.host, host)
        chaos.cut(host, other.host)
    cluster.run(2 * SILENCE_MS)
    assert world.is_replaced(victim)
    world.send(b"meanwhile")

    for other in others:
        if other.node_id == world.active:
            chaos.mend(other.host, host)
            chaos.mend(host, other.host)
    cluster.run_until(lambda: not world.observer.image.cluster.brokers[victim].is_fenced)
    began_ms = cluster.clock.monotonic_ms()
    world.send(b"unfenced")
    assert cluster.clock.monotonic_ms() - began_ms < 2 * SILENCE_MS


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("direction", ["to", "from", "both"])
def test_node_that_only_clients_reach_disconnects_them_once(direction: str, is_controller: bool) -> None:
    """A record sent to it would wait for followers that have another leader; clients that return are served."""
    world = World(1)
    cluster, victim = world.cluster, world.victim(is_controller=is_controller)
    chaos = NetworkChaos(SeededRandom(1), fastest_ms=1, slowest_ms=1)
    cluster.fabric.conditions = chaos
    led = [each.leader for each in world.partitions()]
    client, others = cluster.connect(victim), [cluster.connect(each) for each in cluster.nodes if each != victim]
    for other in cluster.nodes.values():
        if other.node_id != victim and direction != "from":
            chaos.cut(other.host, cluster.nodes[victim].host)
        if other.node_id != victim and direction != "to":
            chaos.cut(cluster.nodes[victim].host, other.host)

    cluster.run_until(lambda: client.is_closed, limit_ms=ISOLATED_MS)
    assert [sample_replication(place.node.replicas).is_isolated for place in cluster.nodes.values()] == [
        node_id == victim for node_id in cluster.nodes
    ]
    again = cluster.connect(victim)
    index = next(index for index, each in enumerate(led) if each == victim)
    response = produce(again, "t", batch_of(again, [b"unconfirmed"]), partition=index, acks=-1)
    assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce(again, "t", batch_of(again, [b"a"]), partition=index, acks=1).error_code == ErrorCode.NONE
    cluster.run(SESSION_MS)
    assert not again.is_closed
    assert not any(other.is_closed for other in others)


def test_nodes_that_were_all_paused_keep_their_clients() -> None:
    """A laptop that slept: what the others sent is read before anything is concluded from their silence."""
    world = World(1)
    cluster = world.cluster
    clients = [cluster.connect(each) for each in cluster.nodes]
    for node_id in cluster.nodes:
        cluster.freeze(node_id)
    cluster.run(2 * SESSION_MS)
    for node_id in cluster.nodes:
        cluster.thaw(node_id)
    cluster.run(SESSION_MS)
    assert not any(client.is_closed for client in clients)


def test_node_whose_followers_go_on_keeps_its_clients_without_a_quorum() -> None:
    cluster = Cluster(seed=1, controllers=1, brokers=3, combined=False)
    cluster.start()
    cluster.run_until_ready()
    controller = cluster.leader_id()
    assert controller is not None
    clients = [cluster.connect(each) for each in cluster.nodes if each != controller]
    create_topic(clients[0], "t", partitions=3, replicas=3)
    cluster.run(1_000)

    cluster.freeze(controller)
    cluster.run(SESSION_MS)
    assert not any(client.is_closed for client in clients)


def test_no_broker_is_fenced_without_a_fault() -> None:
    world = World(1)
    world.cluster.run(10 * 60 * 1_000)

    controllers = [place.node.controller for place in world.cluster.nodes.values()]
    metrics = [controller.metrics() for controller in controllers if controller is not None]
    assert sum(each.failed_pings + each.failed_probes + each.ended_sessions for each in metrics) == 0
    assert world.cluster.leader_id() == world.active


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
@pytest.mark.parametrize("seed", range(3))
def test_node_that_stalls_again_and_again_stays_out_of_the_in_sync_sets(seed: int, is_controller: bool) -> None:
    """A disk where each write takes two seconds: between two of them the node runs for a moment."""
    world = World(seed)
    cluster, victim = world.cluster, world.victim(is_controller=is_controller)
    in_sync_ms = 0
    for number in range(20):
        cluster.freeze(victim)
        for _ in range(STALL_MS // 100):
            cluster.run(100)
            in_sync_ms += 0 if world.is_replaced(victim) else 100
        cluster.disconnect(victim)
        cluster.run(500)
        cluster.thaw(victim)
        cluster.run(300)
        world.send(b"%d" % number)

    assert in_sync_ms <= STALL_MS
    world.check([b"%d" % number for number in range(20)])


def test_link_between_two_nodes_that_is_cut_delays_commits_for_two_seconds() -> None:
    """The controller hears both nodes, so that none is fenced; each leads partitions that the other follows."""
    world = World(1)
    cluster = world.cluster
    chaos = NetworkChaos(SeededRandom(1), fastest_ms=1, slowest_ms=1)
    cluster.fabric.conditions = chaos
    world.send(b"before")
    one, other = (place for place in cluster.nodes.values() if place.node_id != world.active)
    chaos.cut(one.host, other.host)
    chaos.cut(other.host, one.host)

    began_ms = cluster.clock.monotonic_ms()
    world.send(b"meanwhile", timeout_ms=60_000)
    assert cluster.clock.monotonic_ms() - began_ms < LINK_SILENCE_MS
    assert not any(broker.is_fenced for broker in world.observer.image.cluster.brokers.values())

    chaos.mend(one.host, other.host)
    chaos.mend(other.host, one.host)
    # A fetch that was under way waits for replica.socket.timeout.ms; Linux ends its connection after three seconds.
    world.check([b"before", b"meanwhile"], limit_ms=2 * FETCH_TIMEOUT_MS)

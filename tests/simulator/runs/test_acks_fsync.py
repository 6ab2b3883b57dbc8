"""ottla.acks.fsync: records acknowledged with acks=all are on every in-sync disk, also when all nodes lose the rest."""

from itertools import permutations

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.runs.simulation import EVERY_INVARIANT
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import NodeId

FOLLOWER_SYNC_MS = 40
RETURN_PAUSE_MS = 4_000


class KeepsNothing(SeededRandom):
    """A power cut loses all unsynced data."""

    def randrange(self, stop: int) -> int:
        return 0


class Stage:
    """Three nodes, controllers and brokers, with one partition; followers' disks are slow."""

    def __init__(self, *, node_fsync: bool = False, **configs: str) -> None:
        properties = {"offsets.topic.num.partitions": "1", "ottla.acks.fsync": str(node_fsync).lower()}
        self.cluster = Cluster(11, overrides=properties)
        self.state_observer = StateObserver(self.cluster)
        self.state_observer.invariants = [invariant(self.state_observer) for invariant in EVERY_INVARIANT]
        self.cluster.before_start = self.state_observer.before_start
        self.cluster.on_event = self.state_observer.observe_node
        self.cluster.start()
        self.cluster.run_until_ready()
        create_topic(self.cluster.connect(1), "t", replicas=3, min_insync_replicas="2", **configs)
        self.cluster.run_until(lambda: "t" in self.state_observer.image.topics.by_name)
        self.cluster.run(3_000)
        self.leader = self.registration.leader
        self.followers = tuple(each for each in self.registration.replicas if each != self.leader)
        for follower in self.followers:
            self.cluster.nodes[follower].sync_ms = FOLLOWER_SYNC_MS
        self.acknowledged: list[bytes] = []

    @property
    def registration(self) -> PartitionRegistration:
        return self.state_observer.image.topics.by_name["t"].partitions[0]

    def produce(self, count: int, acks: int = -1) -> None:
        client = self.cluster.connect(self.leader)
        for _ in range(count):
            value = b"%d" % len(self.acknowledged)
            assert produce(client, "t", batch_of(client, [value]), acks=acks).error_code == ErrorCode.NONE
            self.acknowledged.append(value)

    def lose_power(self, *intact: NodeId) -> None:
        """End all processes: their hosts reset connections; unsynced data is lost except on ``intact`` disks."""
        for node_id in sorted(self.cluster.nodes):
            self.cluster.kill(node_id, power_loss=node_id not in intact)

    def cut_power(self) -> None:
        """End all hosts: no peer is notified."""
        for node_id in sorted(self.cluster.nodes):
            self.cluster.cut_power(node_id, KeepsNothing(1))

    def return_in(self, order: tuple[NodeId, ...]) -> None:
        for node_id in order:
            self.cluster.nodes[node_id].sync_ms = 0
            self.cluster.start(node_id)
            self.cluster.run(RETURN_PAUSE_MS)
        self.cluster.run_until(lambda: self.registration.has_leader and len(self.registration.isr) == 3)

    def kept(self) -> list[bytes]:
        found = records_in(fetch(self.cluster.connect(self.registration.leader), "t", 0))
        return [bytes(record.value or b"") for record in found]


ORDERS = [pytest.param(order, id="".join(map(str, order))) for order in permutations((1, 2, 3))]


@pytest.mark.parametrize("silently", [False, True], ids=["processes", "hosts"])
@pytest.mark.parametrize("order", ORDERS)
def test_acknowledged_records_survive_the_loss_of_every_unsynced_tail(
    order: tuple[NodeId, ...], silently: bool
) -> None:
    stage = Stage(node_fsync=True)
    stage.produce(10)
    if silently:
        stage.cut_power()
    else:
        stage.lose_power()

    stage.return_in(order)

    assert stage.kept() == stage.acknowledged


@pytest.mark.parametrize("order", ORDERS)
def test_last_known_leader_is_elected_without_an_eligible_replica(order: tuple[NodeId, ...]) -> None:
    stage = Stage()
    stage.produce(10)
    stage.lose_power(stage.leader)

    stage.return_in(order)

    assert stage.kept() == stage.acknowledged

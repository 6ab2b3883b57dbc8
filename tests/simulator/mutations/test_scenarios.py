"""Worst cases on purpose, which random runs rarely hit: each passes with the real broker, and fails with a mutation."""

from collections.abc import Callable

import pytest

import catalog
from hunting import applied
from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.replication.partition import Partition
from ottla.simulator.clients.requests import batch_of, create_topic, produce
from ottla.simulator.invariants.cluster_invariants import INVARIANTS
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.network_fabric import NetworkConditions
from ottla.types import NodeId, TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITION = TopicPartition("t", 0)
CONTROLLER = "node1"


class Links(NetworkConditions):
    """Links that are cut or slow, one way each, as the scenario says."""

    def __init__(self) -> None:
        super().__init__(1)
        self.cut: set[tuple[str, str]] = set()
        self.slow: dict[tuple[str, str], int] = {}

    def travel_ms(self, source: str, target: str) -> int | None:
        return None if (source, target) in self.cut else 1 + self.slow.get((source, target), 0)


class Stage:
    """One controller and three brokers with one partition, whose replicas are ``a`` (the leader), ``b`` and ``c``."""

    def __init__(self) -> None:
        self.links = Links()
        self.cluster = Cluster(5, controllers=1, combined=False, conditions=self.links)
        self.state_observer = StateObserver(self.cluster)
        self.state_observer.invariants = [invariant(self.state_observer) for invariant in INVARIANTS]
        self.cluster.before_start = self.state_observer.before_start
        self.cluster.on_event = self.state_observer.observe_node
        self.cluster.start()
        self.cluster.run_until_ready()
        # The controller fences brokers by id: the last replica before the leader.
        self.a, self.b, self.c = assignment = (3, 4, 2)
        create_topic(self.cluster.connect(2), "t", assignment=assignment)
        self.cluster.run_until(lambda: "t" in self.state_observer.image.topics.by_name)
        self.produce(self.a, acks=-1)
        self.cluster.run(1_000)

    @property
    def registration(self) -> PartitionRegistration:
        return self.state_observer.image.topics.by_name["t"].partitions[0]

    def replica(self, node_id: NodeId) -> Partition:
        process = self.cluster.nodes[node_id].process
        assert process is not None
        return process.replicas.get(*PARTITION)

    def end(self, node_id: NodeId) -> int:
        return self.replica(node_id).log.log_end_offset

    def host(self, node_id: NodeId) -> str:
        return self.cluster.nodes[node_id].host

    def produce(self, node_id: NodeId, *, acks: int = 1) -> None:
        client = self.cluster.connect(node_id)
        assert produce(client, "t", batch_of(client, [b"x"]), acks=acks).error_code == ErrorCode.NONE

    def produce_later(self, node_id: NodeId) -> None:
        """Send a record with acks=all, and wait for nothing."""
        client = self.cluster.connect(node_id)
        data = PartitionProduceData(index=0, records=batch_of(client, [b"x"]))
        topic = TopicProduceData(name="t", partition_data=[data])
        client.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 9)

    def leads(self, node_id: NodeId) -> bool:
        place = self.cluster.nodes[node_id]
        return place.process is not None and self.replica(node_id).is_leader

    def prefer(self, *replicas: NodeId) -> None:
        """Put the replicas into another order, and elect the first one."""
        client = self.cluster.connect(self.c)
        wanted = ReassignablePartition(partition_index=0, replicas=list(replicas))
        topics = [ReassignableTopic(name="t", partitions=[wanted])]
        move = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5_000)
        assert client.ask(move, AlterPartitionReassignmentsResponse, 0).error_code == 0
        place = TopicPartitions(topic="t", partitions=[0])
        elect = ElectLeadersRequest(election_type=0, topic_partitions=[place], timeout_ms=5_000)
        assert client.ask(elect, ElectLeadersResponse, 2).error_code == 0


def a_follower_that_has_diverged_leads_next() -> Stage:
    """Records that a follower acknowledged, but does not know to be committed, survive a divergence behind them."""
    stage = Stage()
    a, b, c = stage.a, stage.b, stage.c
    acknowledged = stage.end(a) + 1
    stage.links.slow[stage.host(a), stage.host(b)] = 300
    stage.produce_later(a)
    stage.cluster.run(50)
    stage.produce(a)
    stage.cluster.run_until(lambda: stage.replica(a).log.high_watermark == acknowledged)
    assert (stage.end(b), stage.end(c)) == (acknowledged, acknowledged + 1)
    assert stage.replica(c).log.high_watermark < acknowledged
    stage.cluster.kill(a)
    stage.cluster.run_until(lambda: stage.leads(b))

    stage.cluster.run_until(lambda: stage.end(c) <= acknowledged)
    stage.cluster.kill(b)
    stage.cluster.run_until(lambda: stage.leads(c))
    return stage


def a_leader_returns_with_a_record_that_no_other_replica_has() -> Stage:
    """Records that only the former leader has are truncated, when the next leader has others at these offsets."""
    stage = Stage()
    a, b, c = stage.a, stage.b, stage.c
    start = stage.end(a)
    stage.links.cut |= {(stage.host(a), stage.host(b)), (stage.host(a), stage.host(c))}
    stage.produce(a)
    stage.cluster.fabric.reset_connections(lambda source, target: stage.host(a) in (source, target))
    stage.cluster.kill(a)
    stage.links.cut.clear()
    stage.cluster.run_until(lambda: stage.leads(b))
    assert (stage.end(b), stage.end(c)) == (start, start)
    for _ in range(2):
        stage.produce(b, acks=-1)

    stage.cluster.start(a)
    stage.cluster.run_until(lambda: a in stage.registration.isr)
    stage.cluster.run_until(lambda: stage.replica(a).log.high_watermark == start + 2)
    return stage


def a_leader_that_missed_an_epoch_leads_again(*, cuts_responses: bool) -> Stage:
    """Its state of a follower, or a late request of one, is from before the epoch that it missed."""
    stage = Stage()
    a, b, c = stage.a, stage.b, stage.c
    links = stage.links
    start = stage.end(a)
    links.cut.add((stage.host(a), stage.host(b)))
    for _ in range(2):
        stage.produce(a)
        stage.cluster.run(20)
    stage.produce_later(a)
    stage.cluster.run_until(lambda: stage.end(a) == start + 3)
    if cuts_responses:
        links.cut.add((stage.host(c), stage.host(a)))
    stage.cluster.run(20)
    assert (stage.end(a), stage.end(b), stage.end(c)) == (start + 3, start, start + 3)

    apart = {CONTROLLER, stage.host(a)}
    links.cut |= {(CONTROLLER, stage.host(a)), (stage.host(a), CONTROLLER)}
    stage.cluster.fabric.reset_connections(lambda source, target: {source, target} == apart)
    stage.prefer(b, a, c)
    stage.cluster.run_until(lambda: stage.leads(b) and stage.end(c) == start)
    stage.produce(b)
    stage.cluster.run_until(lambda: stage.end(c) == start + 1)
    assert stage.leads(a), "it was not notified"
    stage.cluster.kill(b)
    stage.cluster.run_until(lambda: stage.registration.leader == a)

    links.cut -= {(CONTROLLER, stage.host(a)), (stage.host(a), CONTROLLER)}
    stage.cluster.fabric.release()
    stage.cluster.run_until(lambda: stage.replica(a).leader_epoch == stage.registration.leader_epoch)
    links.cut.clear()
    stage.cluster.fabric.release()
    stage.cluster.run_until(lambda: stage.end(c) == stage.end(a) == stage.replica(a).log.high_watermark)
    return stage


def a_leader_continues_from_stale_follower_state() -> Stage:
    return a_leader_that_missed_an_epoch_leads_again(cuts_responses=False)


def a_fetch_of_an_epoch_that_is_over_arrives_late() -> Stage:
    return a_leader_that_missed_an_epoch_leads_again(cuts_responses=True)


def a_leader_comes_back_last_with_the_only_disk_that_lost_nothing() -> Stage:
    """The controller does not know which brokers are gone and elects one that never leads."""
    stage = Stage()
    a, b, c = stage.a, stage.b, stage.c
    stage.cluster.kill(1)
    stage.cluster.kill(a)
    stage.cluster.kill(b, power_loss=True)
    stage.cluster.kill(c, power_loss=True)
    stage.cluster.start(1)
    stage.cluster.run_until(lambda: not stage.registration.has_leader)
    assert stage.registration.leader_epoch == 2, "another broker was elected in between"

    stage.cluster.start(b, c)
    stage.cluster.run(10_000)
    stage.cluster.start(a)
    stage.cluster.run_until(lambda: len(stage.registration.isr) == 3)
    return stage


SCENARIOS: dict[Callable[[], Stage], str] = {
    a_follower_that_has_diverged_leads_next: "a diverged follower cuts its log at the high watermark that it knows",
    a_leader_returns_with_a_record_that_no_other_replica_has: "followers never truncate what has diverged",
    a_leader_continues_from_stale_follower_state: "progress of followers outlives the leader's epoch",
    a_fetch_of_an_epoch_that_is_over_arrives_late: "fetches of every leader epoch are served",
    a_leader_comes_back_last_with_the_only_disk_that_lost_nothing: (
        "the last known leader is one that was never seen alive"
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario_passes_without_a_mutation(scenario: Callable[[], Stage]) -> None:
    stage = scenario()

    leader = stage.replica(stage.registration.leader)
    assert leader.is_leader
    assert leader.log.log_end_offset >= stage.state_observer.ledger.partitions()[0].end > 0


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS.items(), ids=SCENARIOS.values())
def test_mutation_is_caught(scenario: Callable[[], Stage], name: str) -> None:
    mutation = next(each for each in catalog.MUTATIONS if each.name == name)
    with applied(mutation), pytest.raises(InvariantViolation):
        scenario()

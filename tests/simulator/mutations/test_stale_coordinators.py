"""A coordinator that was replaced, and does not know it, sends no committed offsets: they may be older ones."""

from collections.abc import Callable

import pytest

import offset_mutations
from hunting import applied
from ottla.errors import ErrorCode
from ottla.metadata.topics import PartitionRegistration
from ottla.simulator.clients.requests import commit_offset, create_topic, offset_commit_request
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import CONSUMER_OFFSETS_TOPIC, NodeId, Offset
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

CONFIRMATION_AGE_MAX_MS = 1_000
"""Default of ottla.broker.response.timeout.ms."""
REPLACED_MS = 4_000
FETCHES_TRAVEL_MS = 1
"""After a commit was sent: its record is with the followers, and their next fetches are on their way."""


class Stage:
    """One controller, and three brokers with a group's offsets; ``coordinator`` leads their partition at first."""

    def __init__(self, seed: int) -> None:
        self.links = NetworkChaos(SeededRandom(seed), fastest_ms=1, slowest_ms=1)
        overrides = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
        self.cluster = Cluster(seed, controllers=1, combined=False, conditions=self.links, overrides=overrides)
        self.observer = StateObserver(self.cluster)
        self.cluster.before_start = self.observer.before_start
        self.cluster.on_event = self.observer.observe_node
        self.cluster.start()
        self.cluster.run_until_ready()
        create_topic(self.cluster.connect(2), "t")
        self.cluster.run_until(self._finds_coordinator)
        self.cluster.run_until(lambda: len(self.offsets.isr) == 3)
        self.cluster.run(1_000)
        self.coordinator = self.offsets.leader
        self.commit(1)

    @property
    def offsets(self) -> PartitionRegistration:
        return self.observer.image.topics.by_name[CONSUMER_OFFSETS_TOPIC].partitions[0]

    def _finds_coordinator(self) -> bool:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        found = self.cluster.connect(2).ask(request, FindCoordinatorResponse, 4)
        return found.coordinators[0].error_code == ErrorCode.NONE

    def commit(self, offset: Offset) -> None:
        assert commit_offset(self.cluster.connect(self.offsets.leader), "g", "t", offset) == ErrorCode.NONE

    def fetch(self, node_id: NodeId) -> Offset | ErrorCode:
        """Return the offset that the node says is committed, or its error."""
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
        group = self.cluster.connect(node_id).ask(request, OffsetFetchResponse, 9).groups[0]
        return ErrorCode(group.error_code) if group.error_code else group.topics[0].partitions[0].committed_offset

    def cut_off(self, node_id: NodeId) -> None:
        """Drop all packets between a node and the others; clients are connected still."""
        host = self.cluster.nodes[node_id].host
        for other in self.cluster.nodes.values():
            if other.node_id != node_id:
                self.links.cut(other.host, host)
                self.links.cut(host, other.host)

    def replace(self) -> None:
        """Wait until another node is the coordinator, and commit the next offset there."""
        self.cluster.run_until(lambda: self.offsets.leader not in (self.coordinator, -1), limit_ms=REPLACED_MS)
        self.cluster.run(1_000)
        self.commit(2)


def coordinator_that_was_paused(seed: int) -> Stage:
    """It continues where it was, with its followers' fetches from before the pause, and learns nothing new."""
    stage = Stage(seed)
    stage.cluster.connect(stage.coordinator).send(offset_commit_request("g", "t", {0: 1}), 8)
    stage.cluster.run(FETCHES_TRAVEL_MS)
    stage.cluster.freeze(stage.coordinator)
    stage.replace()
    stage.cut_off(stage.coordinator)
    stage.cluster.thaw(stage.coordinator)
    return stage


def coordinator_that_is_cut_off(seed: int) -> Stage:
    """Nothing but clients can reach it."""
    stage = Stage(seed)
    stage.cut_off(stage.coordinator)
    stage.replace()
    return stage


SCENARIOS = {
    coordinator_that_was_paused: "a follower confirms its leader when its fetch is read",
    coordinator_that_is_cut_off: "a coordinator needs no confirmation to read",
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_replaced_coordinator_sends_no_committed_offsets(scenario: Callable[[int], Stage], seed: int) -> None:
    stage = scenario(seed)

    assert stage.fetch(stage.coordinator) is ErrorCode.NOT_COORDINATOR
    assert stage.fetch(stage.offsets.leader) == 2


@pytest.mark.parametrize(("scenario", "name"), SCENARIOS.items(), ids=SCENARIOS.values())
def test_mutation_is_caught(scenario: Callable[[int], Stage], name: str) -> None:
    mutation = next(each for each in offset_mutations.MUTATIONS if each.name == name)
    with applied(mutation):
        stage = scenario(0)
        assert stage.fetch(stage.coordinator) == 1


def test_coordinator_whose_followers_are_idle_sends_committed_offsets_at_any_time() -> None:
    stage = Stage(1)
    for _ in range(40):
        stage.cluster.run(97)
        assert stage.fetch(stage.coordinator) == 1


def test_elected_coordinator_sends_committed_offsets_at_once() -> None:
    """It does not wait for its followers' next fetches to end."""
    stage = Stage(1)
    stage.cluster.kill(stage.coordinator)
    stage.cluster.run_until(lambda: stage.offsets.leader not in (stage.coordinator, -1))
    elected = stage.offsets.leader

    stage.cluster.run_until(lambda: stage.fetch(elected) == 1, limit_ms=100)


def test_coordinator_that_is_the_last_in_sync_sends_committed_offsets() -> None:
    stage = Stage(1)
    for follower in stage.offsets.isr:
        if follower != stage.coordinator:
            stage.cluster.kill(follower)
    stage.cluster.run_until(lambda: stage.offsets.isr == (stage.coordinator,))
    stage.cluster.run(2 * CONFIRMATION_AGE_MAX_MS)

    assert stage.fetch(stage.coordinator) == 1

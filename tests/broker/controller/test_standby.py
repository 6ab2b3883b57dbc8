"""A standby replays the active controller's records: at every offset of the log both have the same state."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.config.resource_type import ConfigResourceType
from ottla.controller.partition_index import PartitionIndex
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.metadata.records import MetadataRecord
from ottla.peers.channel import PeerFailure
from ottla.purgatory import Delayed
from ottla.raft.records import Batch
from ottla.types import TopicIdPartition
from ottla.wire.messages import metadata_log as log
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b"])
SETS = st.lists(BROKERS, min_size=1, max_size=4, unique=True)
ACTIONS = st.one_of(
    st.tuples(st.just("assign"), TOPICS, SETS),
    st.tuples(st.just("isr"), TOPICS, SETS),
    st.tuples(st.just("reassign"), TOPICS, st.one_of(st.none(), SETS)),
    st.tuples(st.just("fence"), BROKERS),
    st.tuples(st.just("heartbeat"), BROKERS, st.booleans()),
    st.tuples(st.just("restart"), BROKERS, st.booleans()),
    st.tuples(st.just("amend"), BROKERS),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("lose"), BROKERS),
    st.tuples(st.just("enlarge"), TOPICS, st.integers(1, 3)),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("elect"), TOPICS, st.integers(0, 1)),
    st.tuples(st.just("unclean"), TOPICS, st.sampled_from(["true", None])),
    st.tuples(st.just("min_isr"), TOPICS, st.sampled_from(["1", "2", "3"])),
    st.tuples(st.just("elr"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.integers(0, 12_000)),
    st.tuples(st.just("failover")),
)


class Player:
    """Runs each action, which the controller may reject."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    def act(self, action: tuple[Any, ...]) -> None:
        name, *arguments = action
        concerns_topic = name in ("isr", "reassign", "elect", "unclean", "min_isr")
        if not concerns_topic or arguments[0] in self.cluster.image.topics.by_name:
            getattr(self, name)(*arguments)

    def assign(self, name: str, replicas: list[int]) -> None:
        is_new = name not in self.cluster.image.topics.by_name
        cluster = self.cluster.image.cluster
        are_known = all(each in cluster.brokers for each in replicas)
        if is_new and are_known and any(cluster.is_active(each) for each in replicas):
            self.cluster.assign(name, replicas)

    def isr(self, name: str, isr: list[int]) -> None:
        self.cluster.alter_partition(name, isr)

    def reassign(self, name: str, replicas: list[int] | None) -> None:
        self.cluster.reassign(name, replicas)

    def fence(self, broker_id: int) -> None:
        self.cluster.ask(self.cluster.heartbeat(broker_id, want_fence=True))

    def heartbeat(self, broker_id: int, want_shut_down: bool) -> None:
        self.cluster.ask(self.cluster.heartbeat(broker_id, want_shut_down=want_shut_down))

    def restart(self, broker_id: int, clean: bool) -> None:
        previous = self.cluster.epoch_of(broker_id) if clean else -1
        self.cluster.ask(self.cluster.registration(broker_id, previous_broker_epoch=previous))

    def amend(self, broker_id: int) -> None:
        if broker_id in self.cluster.image.cluster.brokers:
            incarnation_id = self.cluster.broker_of(broker_id).incarnation_id
            self.cluster.ask(self.cluster.registration(broker_id, incarnation_id=incarnation_id))

    def unregister(self, broker_id: int) -> None:
        self.cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))

    def lose(self, broker_id: int) -> None:
        self.cluster.active.on_broker_connection_lost(broker_id, self.cluster.epoch_of(broker_id))

    def enlarge(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        self.cluster.ask(CreatePartitionsRequest(topics=[topic]))

    def delete(self, name: str) -> None:
        self.cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]))

    def elect(self, name: str, how: int) -> None:
        self.cluster.ask(self.cluster.elect_request(name, how))

    def unclean(self, name: str, value: str | None) -> None:
        self.cluster.configure(ConfigResourceType.TOPIC, name, "unclean.leader.election.enable", value)

    def min_isr(self, name: str, value: str) -> None:
        self.cluster.configure(ConfigResourceType.TOPIC, name, "min.insync.replicas", value)

    def elr(self, level: int) -> None:
        update = FeatureUpdateKey(
            feature="eligible.leader.replicas.version", max_version_level=level, upgrade_type=1 if level else 2
        )
        self.cluster.ask(UpdateFeaturesRequest(feature_updates=[update]))

    def wait(self, milliseconds: int) -> None:
        self.cluster.wait(milliseconds)

    def failover(self) -> None:
        self.cluster.elect(203 - self.cluster.log.leader.leader_id)


def contents(index: PartitionIndex) -> dict[str, Any]:
    return dict(vars(index))


def rebuilt(state: ControllerState) -> PartitionIndex:
    """Return the index as it is built from the image."""
    fresh = ControllerState()
    fresh.reset(state.position)
    return fresh.index


def watched(cluster: Any) -> Callable[[], None]:
    """Check after every append that all controllers have the same state, and that no invariant is violated."""
    before: dict[TopicIdPartition, Any] = {}

    def check() -> None:
        states = [controller.state for _, controller in sorted(cluster.controllers.items())]
        for state in states[1:]:
            assert state.image == states[0].image
        for state in states:
            assert contents(state.index) == contents(rebuilt(state))
        for topic, number, partition in states[0].partitions():
            place = TopicIdPartition(topic.topic_id, number)
            check_partition(before.get(place), partition)
            before[place] = partition

    return check


def check_partition(before: Any, now: Any) -> None:
    replicas = set(now.replicas)
    assert len(replicas) == len(now.replicas) == len(now.directories)
    assert set(now.isr) <= replicas
    assert set(now.elr) <= replicas
    assert set(now.isr).isdisjoint(now.elr)
    assert len(set(now.isr)) == len(now.isr)
    assert set(now.adding_replicas) | set(now.removing_replicas) <= replicas
    assert now.leader == -1 or now.leader in now.isr
    assert now.isr or now.leader == -1
    if before is not None:
        assert now.partition_epoch >= before.partition_epoch
        assert now.leader_epoch >= before.leader_epoch
        if now != before:
            assert now.partition_epoch > before.partition_epoch
        if now.leader != before.leader:
            assert now.leader_epoch > before.leader_epoch


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=40), response=st.sampled_from([None, *PeerFailure]))
def test_controllers_agree_and_invariants_hold_for_all_actions(
    new_cluster: Callable[..., Any], actions: list[tuple[Any, ...]], response: PeerFailure | None
) -> None:
    cluster = new_cluster(
        1, 2, 3, 4, controllers=2, leader_imbalance_check_interval_ms=5_000, probe=lambda *_: Delayed.of(response)
    )
    check = watched(cluster)
    deliver = cluster._deliver_to_all

    def deliver_and_check() -> None:
        deliver()
        check()

    for replica in cluster.replicas.values():
        replica.tell = deliver_and_check

    player = Player(cluster)
    for action in actions:
        player.act(action)

    check()
    for _ in range(25):
        cluster.wait(1_000)
    assert all(broker.is_fenced for broker in cluster.image.cluster.brokers.values()), "silence ends every session"


def test_state_of_each_log_prefix_equals_the_active_controller_s(
    new_cluster: Callable[..., Any],
) -> None:
    cluster = new_cluster(1, 2, 3, controllers=2)
    images = []
    deliver = cluster._deliver_to_all

    def deliver_and_note() -> None:
        deliver()
        images.append(copy.copy(cluster.image))

    cluster.replicas[101].tell = deliver_and_note
    start = len(cluster.log.batches)
    cluster.assign("t", [1, 2, 3], [2, 3, 1])
    cluster.fence(1)
    cluster.reassign("t", [3, 2])
    cluster.restart_broker(1, clean=False)
    cluster.alter_partition("t", [2, 3, 1], partition=1)
    cluster.wait(9_000)

    standby = ControllerState()
    for position, batch in enumerate(cluster.log.batches):
        provenance = cluster.image.provenance._replace(
            last_contained_offset=batch.last_offset,
            last_contained_epoch=batch.epoch,
            last_contained_log_time_ms=batch.append_timestamp_ms,
        )
        standby.replay(batch.records, provenance)
        if position >= start:
            assert standby.image == images[position - start]


def test_uncommitted_records_are_reverted_and_their_requests_fail(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2, controllers=2)
    cluster.assign("kept", [1, 2])
    cluster.log.commits_at_once = False
    request = CreateTopicsRequest(topics=[CreatableTopic(name="lost", num_partitions=1, replication_factor=2)])
    waiting = cluster.send(request)
    former = cluster.active

    cluster.elect(102)

    assert isinstance(waiting.value, KafkaError)
    assert waiting.value.code is ErrorCode.NOT_CONTROLLER
    assert set(former.state.image.topics.by_name) == {"kept"}
    assert contents(former.state.index) == contents(rebuilt(former.state))
    cluster.commit()
    assert former.state.image == cluster.active.state.image


def test_decisions_are_based_on_uncommitted_records_too(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, 2)
    cluster.log.commits_at_once = False
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    first, second = cluster.send(request), cluster.send(copy.deepcopy(request))
    was_early = first.is_complete or second.is_complete
    cluster.commit()

    assert not was_early
    assert first.value.topics[0].error_code == ErrorCode.NONE
    assert second.value.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_transaction_left_open_by_a_former_controller_is_aborted(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=2)
    base = cluster.log.end_offset
    records = (
        MetadataRecord(log.BeginTransactionRecord(name="half done"), 0),
        MetadataRecord(log.TopicRecord(name="half", topic_id=cluster.random.uuid()), 0),
    )
    cluster.log.batches.append(Batch(base, cluster.log.leader.epoch, 0, 0, records, base + 1))
    cluster.log.leader = cluster.log.leader._replace(leader_id=None)
    for controller in cluster.controllers.values():
        controller.on_leader_change(cluster.log.leader)
    cluster.commit()

    # A first successor loses the leadership before its record is committed, and has to follow the next one's.
    cluster.log.commits_at_once = False
    cluster.elect(102)
    cluster.elect(101)
    cluster.log.commits_at_once = True
    cluster.commit()

    kinds = [type(record.message) for record in cluster.records]
    assert kinds.count(log.AbortTransactionRecord) == 1
    assert all(each.state.image.topics.by_name == {} for each in cluster.controllers.values())
    cluster.assign("whole", [1])
    assert set(cluster.image.topics.by_name) == {"whole"}


def test_new_active_controller_gives_every_broker_a_whole_session(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(1, controllers=2)
    cluster.wait(8_999)

    cluster.elect(102)
    cluster.wait(8_999)
    lives = not cluster.broker_of(1).is_fenced
    cluster.wait(1)

    assert lives
    assert cluster.broker_of(1).is_fenced


def test_restarted_controller_registers_its_new_incarnation_once(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(controllers=2)
    first = cluster.image.cluster.controllers[101].incarnation_id
    cluster.elect(102)
    cluster.elect(101)

    registrations = [each.message for each in cluster.records if isinstance(each.message, log.RegisterControllerRecord)]
    assert cluster.image.cluster.controllers[101].incarnation_id == first
    # The test had registered 102 with another incarnation before it took over.
    assert [each.controller_id for each in registrations] == [101, 102, 102]


@pytest.mark.parametrize(
    ("metadata_version", "is_supported"), [pytest.param(14, False, id="too-old"), pytest.param(15, True, id="3.7-IV0")]
)
def test_controllers_register_from_metadata_version_3_7(
    new_cluster: Callable[..., Any], metadata_version: int, is_supported: bool
) -> None:
    cluster = new_cluster(metadata_version=metadata_version)

    response = cluster.ask(cluster.controller_registration(102))

    assert (response.error_code == ErrorCode.NONE) == is_supported
    assert (102 in cluster.image.cluster.controllers) == is_supported


def test_controller_without_the_finalized_features_is_rejected(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()

    old = cluster.ask(cluster.controller_registration(102, features={"metadata.version": (7, 29)}))
    new = cluster.ask(cluster.controller_registration(103, features={"metadata.version": (7, 31)}))

    assert (old.error_code, new.error_code) == (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)
    assert "does not support finalized version 30 of metadata.version" in old.error_message
    assert SUPPORTED_FEATURES["metadata.version"].last == 30


def test_repeated_controller_registration_writes_no_record(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    request = cluster.controller_registration(102)

    assert len(cluster.records_of(request)) == 1
    assert cluster.records_of(request) == []

"""Several complete nodes over a simulated network: they form a cluster, replicate, and survive the loss of one."""

import errno
import logging
from collections.abc import Callable

import pytest

from ottla.config.validation import STANDARD_AUTHORIZER
from ottla.errors import ErrorCode
from ottla.membership.broker_lifecycle import BrokerState
from ottla.membership.controller_channel import LocalHandler, Origin
from ottla.metadata.cache import LISTED_AFTER_FENCING_MS
from ottla.purgatory import Delayed
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.simulator.world.single_node import Client
from ottla.types import TopicPartition
from ottla.wire.codec import Message
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse

P = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Cluster:
    """Three serving nodes, each broker and controller."""
    made = Cluster(seed=1)
    made.start()
    made.run_until_ready()
    return made


def others(cluster: Cluster, node_id: int) -> list[int]:
    return [each for each in cluster.nodes if each != node_id]


def leader_of(cluster: Cluster, partition: TopicPartition = P) -> int:
    """Return the leader in the metadata of a running node."""
    node = next(place.process for place in cluster.nodes.values() if place.process is not None)
    registration = node.metadata.partition(partition)
    return -1 if registration is None else registration.leader


def isr_is(cluster: Cluster, size: int) -> Callable[[], bool]:
    def is_so() -> bool:
        node = next(place.process for place in cluster.nodes.values() if place.process is not None)
        registration = node.metadata.partition(P)
        return registration is not None and len(registration.isr) == size

    return is_so


def client_of_leader(cluster: Cluster) -> Client:
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    return cluster.connect(leader_of(cluster))


@pytest.mark.parametrize(
    ("brokers", "controllers", "combined"),
    [
        pytest.param(3, 3, True, id="three-combined"),
        pytest.param(5, 3, True, id="three-combined-and-two-brokers"),
        pytest.param(2, 3, False, id="controllers-apart"),
        pytest.param(1, 1, False, id="one-of-each"),
    ],
)
def test_cluster_of_any_shape_forms(brokers: int, controllers: int, combined: bool) -> None:
    cluster = Cluster(seed=2, brokers=brokers, controllers=controllers, combined=combined)
    cluster.start()
    cluster.run_until_ready(limit_ms=10_000)

    alive = [len(place.node.metadata.alive_brokers()) for place in cluster.nodes.values()]
    assert cluster.leader_id() is not None
    assert all(place.node.readiness() == [] for place in cluster.nodes.values())
    assert alive[0] == brokers


def test_every_controller_registers_itself(cluster: Cluster) -> None:
    cluster.run_until(lambda: len(cluster.nodes[1].node.metadata.image.cluster.controllers) == 3)


@pytest.mark.parametrize("through_the_leader", [True, False])
def test_topic_is_created_through_any_node(cluster: Cluster, through_the_leader: bool) -> None:
    leader = cluster.leader_id()
    assert leader is not None
    node_id = leader if through_the_leader else others(cluster, leader)[0]
    create_topic(cluster.connect(node_id), "t", replicas=3)
    cluster.run_until(lambda: all(place.node.metadata.topic("t") is not None for place in cluster.nodes.values()))


@pytest.mark.parametrize(
    ("super_users", "code"),
    [("User:admin", ErrorCode.UNKNOWN_SERVER_ERROR), ("User:ANONYMOUS", ErrorCode.INVALID_REQUEST)],
    ids=["anybody", "super-user"],
)
def test_controller_without_acl_entries_authorizes_super_users_only(super_users: str, code: ErrorCode) -> None:
    """Even with allow.everyone.if.no.acl.found: the entries are not known yet."""
    overrides = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "super.users": super_users,
    }
    cluster = Cluster(seed=1, overrides=overrides)
    cluster.start(1)
    cluster.run(3_000)

    response = cluster.connect(1, "CONTROLLER").ask(VoteRequest(topics=[]), VoteResponse, 2)

    assert response.error_code == code


@pytest.mark.parametrize("combined", [True, False], ids=["voters", "brokers-apart"])
def test_cluster_whose_nodes_are_not_super_users_logs_it(combined: bool, caplog: pytest.LogCaptureFixture) -> None:
    overrides = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    cluster = Cluster(
        seed=1, brokers=3 if combined else 1, controllers=3 if combined else 1, combined=combined, overrides=overrides
    )
    cluster.start()
    cluster.run(10_000)

    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert not any(place.is_ready for place in cluster.nodes.values() if "broker" in place.roles)
    assert 1 <= len(errors) <= len(cluster.nodes)
    for line in errors:
        assert "is User:ANONYMOUS there" in line
        assert "super.users" in line
    cluster.run(60_000)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) <= 3 * len(cluster.nodes)


def test_many_clients_that_request_one_new_topic_create_it_once(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    assert leader is not None
    node_id = others(cluster, leader)[0]
    node = cluster.nodes[node_id].node
    passed_on: list[list[str]] = []
    forward = node.services.controller.forward

    def note(request: Message, origin: Origin, here: LocalHandler | None = None) -> Delayed[Message]:
        assert isinstance(request, CreateTopicsRequest)
        passed_on.append([topic.name for topic in request.topics])
        return forward(request, origin, here)

    node.services.controller.forward = note  # type: ignore[method-assign]
    clients = [cluster.connect(node_id) for _ in range(20)]
    for client in clients:
        names = [MetadataRequestTopic(name=name) for name in ("t", "u" if client is clients[-1] else "t")]
        client.send(MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
    cluster.run_until(lambda: all(node.metadata.topic(name) is not None for name in ("t", "u")))

    assert passed_on == [["t"], ["u"]]
    assert not node.services.topics_in_flight


def test_failed_auto_creation_of_a_topic_is_retried(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    assert leader is not None
    node_id, *lost = [*others(cluster, leader), leader]
    node = cluster.nodes[node_id].node
    for each in lost:
        cluster.kill(each)
    ask_about = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    cluster.connect(node_id).send(ask_about, 9)
    cluster.run(100)
    assert node.services.topics_in_flight == {"t"}
    cluster.run(node.config.request_timeout_ms)
    assert not node.services.topics_in_flight
    cluster.start(*lost)
    cluster.run_until_ready()
    cluster.connect(node_id).send(ask_about, 9)

    cluster.run_until(lambda: node.metadata.topic("t") is not None)


def test_only_the_active_controller_serves_clients_on_its_listener(cluster: Cluster) -> None:
    leader = cluster.leader_id()
    assert leader is not None
    codes = {}
    for node_id in cluster.nodes:
        topic = CreatableTopic(name=f"t{node_id}", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        response = cluster.connect(node_id, "CONTROLLER").ask(request, CreateTopicsResponse, 7)
        codes[node_id] = ErrorCode(response.topics[0].error_code)

    assert codes == {
        node_id: ErrorCode.NONE if node_id == leader else ErrorCode.NOT_CONTROLLER for node_id in cluster.nodes
    }


def test_quorum_is_described_by_any_node(cluster: Cluster) -> None:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    for node_id in cluster.nodes:
        response = cluster.connect(node_id).ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, 2)
        described = response.topics[0].partitions[0]

        assert (response.error_code, described.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert described.leader_id == cluster.leader_id()
        assert sorted(voter.replica_id for voter in described.current_voters) == [1, 2, 3]


def test_records_are_replicated_and_acknowledged_by_all(cluster: Cluster) -> None:
    create_topic(cluster.connect(1), "t", replicas=3, min_insync_replicas="3")
    client = client_of_leader(cluster)
    cluster.run_until(isr_is(cluster, 3))

    response = produce(client, "t", batch_of(client, [b"a", b"b"]), acks=-1)

    assert response.error_code == ErrorCode.NONE
    assert [record.value for record in records_in(fetch(client, "t", 0))] == [b"a", b"b"]
    for place in cluster.nodes.values():
        partition = place.node.replicas.find(*P)
        assert partition is not None
        assert partition.log.log_end_offset == 2


@pytest.mark.parametrize("is_controller", [True, False])
def test_leadership_of_a_killed_broker_moves_within_a_second(cluster: Cluster, is_controller: bool) -> None:
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    victim = cluster.leader_id() if is_controller else others(cluster, cluster.leader_id() or 0)[0]
    assert victim is not None
    partitions = [TopicPartition("t", index) for index in range(3)]
    led = next(each for each in partitions if leader_of(cluster, each) == victim)
    cluster.run(1_000)
    cluster.kill(victim)
    killed_at_ms = cluster.clock.monotonic_ms()
    cluster.run_until(lambda: leader_of(cluster, led) not in (victim, -1), limit_ms=9_000)

    assert cluster.clock.monotonic_ms() - killed_at_ms < 1_000


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_partitions_of_a_killed_quorum_leader_have_new_leaders_within_half_a_second(seed: int) -> None:
    """Its successor has no lost heartbeat connection: it probes every broker as soon as it is active."""
    cluster = Cluster(seed=seed)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    partitions = [TopicPartition("t", index) for index in range(3)]
    took_ms = []
    for calm_ms in (1_500, 1_741, 2_000, 2_503):
        cluster.run(calm_ms)
        victim = cluster.leader_id()
        assert victim is not None
        cluster.kill(victim)
        killed_at_ms = cluster.clock.monotonic_ms()
        gone = {victim, -1}
        cluster.run_until(lambda gone=gone: not gone & {leader_of(cluster, each) for each in partitions})  # type: ignore[misc]
        took_ms.append(cluster.clock.monotonic_ms() - killed_at_ms)
        cluster.start(victim)
        cluster.run_until_ready()

    assert max(took_ms) < 500, took_ms


def metadata_of(client: Client) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    return client.ask(request, MetadataResponse, 12)


def test_killed_broker_is_still_listed_when_its_partitions_have_moved(cluster: Cluster) -> None:
    """librdkafka must learn their new leaders before it removes the broker: see `LISTED_AFTER_FENCING_MS`."""
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    victim = others(cluster, cluster.leader_id() or 0)[0]
    client = cluster.connect(cluster.leader_id() or 0)
    cluster.kill(victim)
    cluster.run(1_000)
    response = metadata_of(client)
    leaders = {partition.leader_id for partition in response.topics[0].partitions}
    cluster.run(LISTED_AFTER_FENCING_MS)

    assert sorted(broker.node_id for broker in response.brokers) == [1, 2, 3]
    assert leaders <= set(others(cluster, victim))
    assert sorted(broker.node_id for broker in metadata_of(client).brokers) == others(cluster, victim)


@pytest.mark.parametrize("is_controller", [True, False])
def test_metadata_request_after_a_leaders_death_returns_its_successor(cluster: Cluster, is_controller: bool) -> None:
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    cluster.run(1_000)
    controller = cluster.leader_id() or 0
    victim = controller if is_controller else others(cluster, controller)[0]
    clients = [cluster.connect(node_id) for node_id in others(cluster, victim)]
    cluster.kill(victim)
    cluster.run(3)
    asked_at_ms = cluster.clock.monotonic_ms()

    for client in clients:
        leaders = {partition.leader_id for partition in metadata_of(client).topics[0].partitions}
        assert leaders <= set(others(cluster, victim))
    assert cluster.clock.monotonic_ms() - asked_at_ms < 500


def test_metadata_request_without_a_quorum_returns_the_last_leader_after_a_second(cluster: Cluster) -> None:
    create_topic(cluster.connect(1), "t", partitions=3, replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    cluster.run(1_000)
    client = cluster.connect(1)
    for victim in (2, 3):
        cluster.kill(victim)
    cluster.run(3)
    asked_at_ms = cluster.clock.monotonic_ms()
    leaders = {partition.leader_id for partition in metadata_of(client).topics[0].partitions}

    assert leaders & {2, 3}
    assert 900 < cluster.clock.monotonic_ms() - asked_at_ms <= 1_010


def test_restarted_broker_rejoins_the_isr(cluster: Cluster) -> None:
    create_topic(cluster.connect(1), "t", replicas=3)
    client = client_of_leader(cluster)
    victim = others(cluster, leader_of(cluster))[0]
    cluster.kill(victim)
    cluster.run_until(isr_is(cluster, 2))
    assert produce(client, "t", batch_of(client, [b"a"]), acks=-1).error_code == ErrorCode.NONE
    cluster.start(victim)
    cluster.run_until_ready()
    cluster.run_until(isr_is(cluster, 3))

    partition = cluster.nodes[victim].node.replicas.find(*P)
    assert partition is not None
    assert partition.log.log_end_offset == 1


def test_controlled_shutdown_moves_leadership_before_the_node_stops(cluster: Cluster) -> None:
    create_topic(cluster.connect(1), "t", replicas=3)
    cluster.run_until(lambda: leader_of(cluster) >= 0)
    first = leader_of(cluster)
    cluster.stop(first)

    assert cluster.nodes[first].stopped == [None]
    assert leader_of(cluster) not in (first, -1)
    assert cluster.nodes[first].disk.exists("/data/.kafka_cleanshutdown")


def test_all_nodes_may_be_stopped_at_once(cluster: Cluster) -> None:
    for place in cluster.nodes.values():
        place.node.begin_shutdown()
    cluster.run_until(lambda: all(place.process is None for place in cluster.nodes.values()), limit_ms=15_000)

    assert [place.stopped for place in cluster.nodes.values()] == [[None]] * 3


def test_cluster_recovers_after_power_loss_of_all_nodes(cluster: Cluster) -> None:
    create_topic(cluster.connect(1), "t", replicas=3)
    for node_id in cluster.nodes:
        cluster.kill(node_id, power_loss=True)
    cluster.start()
    cluster.run_until_ready()

    assert all(place.node.state is BrokerState.RUNNING for place in cluster.nodes.values())
    assert cluster.nodes[1].node.metadata.topic("t") is not None


def test_restarted_broker_has_no_replicas_before_its_metadata_is_new_enough() -> None:
    """S1 of the simulator (seed 19): older metadata names it as leader of its last process's partitions, same epoch."""
    cluster = Cluster(seed=1, controllers=1, brokers=1, combined=False)
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(2), "t")
    cluster.run(1_000)
    cluster.kill(2)
    seen: list[tuple[BrokerState, bool, int]] = []

    def look(place: SimulatedNode) -> None:
        node = place.process
        if place.node_id == 2 and node is not None:
            seen.append((node.state, node.metadata.partition(P) is not None, len(list(node.replicas))))

    cluster.on_event = look
    cluster.start(2)
    cluster.run_until_ready()

    before = {(knows_topic, replicas) for state, knows_topic, replicas in seen if state is BrokerState.STARTING}
    assert before == {(False, 0), (True, 0)}, "it had the metadata of its last process for a while"
    assert seen[-1] == (BrokerState.RUNNING, True, 1)


def test_log_directory_failure_while_loading_affects_its_own_replicas_only() -> None:
    """S2 of the simulator (seed 31): the failure was reported to parts of the node that did not exist yet."""
    cluster = Cluster(seed=1, brokers=1, overrides={"log.dirs": "/data,/data2"})
    place = cluster.nodes[1]
    cluster.start()
    cluster.run_until_ready()
    create_topic(cluster.connect(1), "t", partitions=2)
    cluster.run(1_000)
    cluster.kill(1)
    place.disk.fail_next("list", errno.EIO, path_part="/data2/t-")

    cluster.start()
    cluster.run_until_ready()

    assert place.node.logs.offline_directories() == ["/data2"]
    led = [place.node.metadata.partition(TopicPartition("t", index)).leader for index in range(2)]  # type: ignore[union-attr]
    assert sorted(led) == [-1, 1]

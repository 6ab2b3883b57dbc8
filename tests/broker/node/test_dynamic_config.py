"""Settings that are changed while the node runs take effect without a restart."""

import logging
from collections.abc import Callable

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, produce
from ottla.simulator.world.single_node import ALICE, JAAS, LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.types import TopicPartition
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

SET = 0


def set_on_broker(client: Client, name: str, key: str, value: str) -> AlterConfigsResourceResponse:
    """Set ``key`` of the broker with the id ``name``, or of all brokers if it is empty."""
    setting = AlterableConfig(name=key, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=name, configs=[setting])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    return client.ask(request, IncrementalAlterConfigsResponse, 1).responses[0]


@pytest.fixture
def locked(world: World) -> RunningNode:
    return world.start_node(**LOCKED)


@pytest.mark.parametrize(
    ("expiration_ms", "is_known"),
    [pytest.param(1_000, False, id="shorter-than-the-wait"), pytest.param(3_600_000, True, id="longer")],
)
def test_producer_id_expiration_ms_applies_at_once(world: World, expiration_ms: int, is_known: bool) -> None:
    running = world.start_node(producer_id_expiration_check_interval_ms="2000")
    client = running.connect()
    create_topic(client, "t")
    produce(client, "t", batch_of(client, [b"x"], producer_id=7, producer_epoch=0, base_sequence=0))
    log = running.node.logs.get(TopicPartition("t", 0))
    assert log is not None
    assert len(log.active_producers()) == 1

    response = set_on_broker(client, "", "producer.id.expiration.ms", str(expiration_ms))
    running.run(6_000)

    assert response.error_code == ErrorCode.NONE
    assert bool(log.active_producers()) is is_known


def test_assignment_interval_of_consumer_groups_applies_at_once(world: World) -> None:
    running = world.start_node(offsets_topic_replication_factor="1", group_consumer_assignment_interval_ms="10000")
    client = running.connect()
    create_topic(client, "t")
    while (
        client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 4)
        .coordinators[0]
        .error_code
    ):
        running.run(100)

    def join(member_id: str) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        return client.ask(request, ConsumerGroupHeartbeatResponse, 1).member_epoch

    epochs = [join("m1"), join("m2")]
    response = set_on_broker(client, "", "group.consumer.assignment.interval.ms", "0")
    running.run(100)
    epochs.append(join("m3"))

    assert response.error_code == ErrorCode.NONE
    assert epochs == [2, 2, 4]


def set_jaas(locked: RunningNode, jaas: str) -> int:
    response = set_on_broker(
        locked.connect(), "1", f"listener.name.{SASL_LISTENER.lower()}.plain.sasl.jaas.config", jaas
    )
    assert "zebra" not in (response.error_message or "")
    locked.run(100)
    return response.error_code


def test_users_of_plain_change_while_the_node_runs_and_sessions_continue(locked: RunningNode) -> None:
    before = locked.connect(SASL_LISTENER)
    before.log_in(*ALICE)

    assert set_jaas(locked, JAAS.replace('user_eve="evil"', 'user_bob="zebra"')) == ErrorCode.NONE
    assert locked.connect(SASL_LISTENER).log_in("bob", "zebra").error_code == ErrorCode.NONE
    assert locked.connect(SASL_LISTENER).log_in("eve", "evil").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert before.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None


def test_passwords_are_never_shown(locked: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        set_jaas(locked, JAAS.replace("evil", "zebra"))
        broker = DescribeConfigsResource(resource_type=4, resource_name="1")
        request = DescribeConfigsRequest(resources=[broker], include_synonyms=True, include_documentation=True)
        described = repr(locked.connect().ask(request, DescribeConfigsResponse, 4))

    assert "sasl.jaas.config" in described
    for secret in ("zebra", "user_alice"):
        assert secret not in described
        assert secret not in caplog.text
    assert "user_alice" not in repr(locked.node.config)


def test_invalid_settings_are_rejected_and_change_nothing(locked: RunningNode) -> None:
    assert set_jaas(locked, JAAS.replace(";", ' user_bob="zebra"')) == ErrorCode.INVALID_REQUEST
    assert locked.connect(SASL_LISTENER).log_in(*ALICE).error_code == ErrorCode.NONE


def produce_error(client: Client, producer_id: int) -> int:
    """Return the error of the first batch of a transaction that no coordinator knows."""
    batch = batch_of(client, [b"x"], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batch)])
    request = ProduceRequest(transactional_id="payments", acks=-1, timeout_ms=1_000, topic_data=[topic])
    return client.ask(request, ProduceResponse, 11).responses[0].partition_responses[0].error_code


def offset_commit_error(client: Client, producer_id: int) -> int:
    """Return the error of an offset in such a transaction."""
    partition = TxnOffsetCommitRequestPartition(committed_offset=1)
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return client.ask(request, TxnOffsetCommitResponse, 4).topics[0].partitions[0].error_code


@pytest.mark.parametrize("broker", [pytest.param("", id="all-brokers"), pytest.param("1", id="this-broker")])
@pytest.mark.parametrize("error_of", [produce_error, offset_commit_error])
def test_verification_of_transactions_is_switched_off_and_on(
    world: World, error_of: Callable[[Client, int], int], broker: str
) -> None:
    running = world.start_node(transaction_state_log_replication_factor="1", transaction_state_log_min_isr="1")
    client = running.connect()
    create_topic(client, "t")
    for key_type, key in enumerate(("g", "payments")):
        client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), FindCoordinatorResponse, 4)
    running.run(1_000)

    is_appended = []
    for producer_id, value in enumerate(("true", "false", "true"), 7_000):
        set_on_broker(client, broker, "transaction.partition.verification.enable", value)
        running.run(100)
        # A node in memory has no connection to its own coordinator: each verification fails.
        is_appended.append(error_of(client, producer_id) == ErrorCode.NONE)

    assert is_appended == [False, True, False]

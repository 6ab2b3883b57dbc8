"""Settings that are changed while the node runs take effect without a restart."""

import logging

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, produce
from ottla.simulator.world.single_node import ALICE, JAAS, LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.types import TopicPartition
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

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

"""FindCoordinator: the responses of Kafka 4.3.1, and the creation of __consumer_offsets upon the first request."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.find_coordinator import find_coordinator
from ottla.share_state.coordinator import parse_coordinator_key
from ottla.share_state.messages import message_of
from ottla.simulator.world.single_node import anonymous_client
from ottla.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

INVALID = (
    "Coordinators are found for groups (key type 0), transactional ids (1) and, from version 6 on, share-partitions "
    "(2); the request has another type."
)


def find(node: Any, version: int, *, key_type: int = 0, keys: tuple[str, ...] = ("g",)) -> Any:
    if version < 4:
        return node.call(FindCoordinatorRequest(key=keys[0], key_type=key_type), version).value
    return node.call(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version).value


@pytest.mark.parametrize(("version", "message"), [(0, ""), (1, "NONE"), (2, "NONE"), (3, "NONE")], ids=str)
def test_coordinator_of_one_key_is_found(group_node: Any, version: int, message: str) -> None:
    expected = FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=9092, error_message=message)

    assert find(group_node, version) == expected


@pytest.mark.parametrize("version", [4, 5, 6])
def test_coordinators_of_several_keys_are_returned_in_order(group_node: Any, version: int) -> None:
    response = find(group_node, version, keys=("g", "", "g"))

    assert response.coordinators == [
        Coordinator(key=key, node_id=1, host="127.0.0.1", port=9092, error_message="") for key in ("g", "", "g")
    ]


@pytest.mark.parametrize("key_type", [0, 1])
def test_each_long_key_is_a_step(group_node: Any, key_type: int) -> None:
    """To hash a key of 32 KiB takes 2.8 ms."""
    keys = [f"{number}{'g' * 32_000}" for number in range(3)]
    request = FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)
    context = RequestContext(10, 6, 1, "c", anonymous_client(), group_node.services(), 0)
    steps = find_coordinator(context, request)
    assert not isinstance(steps, FindCoordinatorResponse)

    assert list(steps) == [None] * 3


@pytest.mark.parametrize(
    ("partition", "is_key"),
    [("0" * 5_000 + "1", True), ("+1", True), ("-2147483648", True), ("2147483648", False), ("9" * 5_000, False)],
    ids=["zeros", "plus", "smallest", "too-large", "thousands-of-digits"],
)
def test_share_partition_is_an_int32_as_text(partition: str, *, is_key: bool) -> None:
    assert (parse_coordinator_key(f"g:{'A' * 22}:{partition}") is not None) is is_key


@pytest.mark.parametrize(
    ("key_type", "error", "old_message", "new_message"),
    [
        pytest.param(1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.", "", id="transaction"),
        pytest.param(2, ErrorCode.INVALID_REQUEST, message_of(ErrorCode.INVALID_REQUEST), "", id="share"),
        pytest.param(3, ErrorCode.INVALID_REQUEST, INVALID, INVALID, id="unknown"),
        pytest.param(-1, ErrorCode.INVALID_REQUEST, INVALID, INVALID, id="negative"),
    ],
)
def test_other_key_types_have_no_coordinator(
    group_node: Any, key_type: int, error: ErrorCode, old_message: str, new_message: str
) -> None:
    assert find(group_node, 1, key_type=key_type) == FindCoordinatorResponse(
        node_id=-1, port=-1, error_code=int(error), error_message=old_message
    )
    assert find(group_node, 6, key_type=key_type).coordinators == [
        Coordinator(key="g", node_id=-1, port=-1, error_code=int(error), error_message=new_message)
    ]


def test_first_request_creates_the_topic(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(topics={"t": 1})

    (result,) = find(node, 4).coordinators

    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    (sent,) = node.controller.sent
    assert isinstance(sent, CreateTopicsRequest)
    (topic,) = sent.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS_TOPIC, 50, 1)
    assert {config.name: config.value for config in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }

    node.set_topics({CONSUMER_OFFSETS_TOPIC: 50})
    assert find(node, 4).coordinators[0].error_code == ErrorCode.NONE
    assert len(node.controller.sent) == 1


def test_first_transactional_id_creates_the_topic_of_transactions(new_group_node: Callable[..., Any]) -> None:
    """The settings are TransactionStateManager's."""
    node = new_group_node(topics={"t": 1})

    (result,) = find(node, 4, key_type=1).coordinators

    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    ((topic,),) = [sent.topics for sent in node.controller.sent]
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (TRANSACTION_STATE_TOPIC, 50, 3)
    assert {config.name: config.value for config in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_share_partitions_of_old_versions_create_no_topic(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(topics={"t": 1})

    find(node, 4, key_type=2)

    assert node.controller.sent == []


@pytest.mark.parametrize(
    ("error", "warned"),
    [
        (ErrorCode.NONE, ""),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ""),
        (ErrorCode.NOT_CONTROLLER, ""),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "offsets.topic.replication.factor"),
        (ErrorCode.POLICY_VIOLATION, "POLICY_VIOLATION"),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_impossible_creation_is_logged(
    new_group_node: Callable[..., Any], caplog: pytest.LogCaptureFixture, error: ErrorCode, warned: str
) -> None:
    node = new_group_node(topics={"t": 1})
    find(node, 4)

    result = CreatableTopicResult(name=CONSUMER_OFFSETS_TOPIC, error_code=int(error), error_message="because")
    node.controller.response.complete(CreateTopicsResponse(topics=[result]))

    assert bool(caplog.text) == bool(warned)
    assert warned in caplog.text


def test_partition_without_leader_has_no_coordinator(group_node: Any) -> None:
    image = group_node.metadata.image
    topic = image.topics.by_name[CONSUMER_OFFSETS_TOPIC]
    for number, partition in topic.partitions.items():
        topic.partitions[number] = partition._replace(leader=-1)

    assert find(group_node, 4).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_development_node_advertises_the_address_that_the_client_connected_to(group_node: Any) -> None:
    group_node.node_config = SimpleNamespace(node_id=1, ottla_advertise_dialled_address=True)

    (result,) = find(group_node, 4).coordinators

    assert (result.node_id, result.host, result.port) == (1, "localhost", 9092)

"""GetTelemetrySubscriptions and PushTelemetry over the wire, to a whole node."""

import zlib
from collections.abc import Callable
from types import GeneratorType
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from ottla.admin.exposition import node_metrics
from ottla.admin.snapshot import NodeSnapshot, take_snapshot
from ottla.client_metrics import manager as manager_module
from ottla.client_metrics.otlp import Point, decode_points
from ottla.config.resource_type import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.handlers import push_telemetry
from ottla.handlers.api import RequestContext
from ottla.purgatory.steps import Steps
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.records import Compression, compress

BYTES_MAX = 10_000
INSTANCE = Uuid(b"0123456789abcdef")


@pytest.fixture
def node(world: World) -> RunningNode:
    """A node with a subscription to all metrics of the client ``test``, once a second."""
    settings = {"ottla_client_metrics_receivers": "metrics,log", "telemetry_max_bytes": str(BYTES_MAX)}
    running = world.start_node(**settings)
    subscribe(running, {"metrics": "*", "interval.ms": "1000", "match": "client_id=te.t"})
    return running


def subscribe(node: RunningNode, values: dict[str, str], name: str = "all") -> None:
    configs = [AlterableConfig(name=key, config_operation=0, value=value) for key, value in values.items()]
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.CLIENT_METRICS, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = node.connect().ask(request, IncrementalAlterConfigsResponse, 1).responses
    assert result.error_code == ErrorCode.NONE
    node.run(10)


def get(client: Client, instance_id: Uuid = INSTANCE) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return client.ask(request, GetTelemetrySubscriptionsResponse, 0)


def push_request(subscription: GetTelemetrySubscriptionsResponse, data: bytes, **fields: Any) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        metrics=data,
        **fields,
    )


def push(client: Client, subscription: GetTelemetrySubscriptionsResponse, data: bytes, **fields: Any) -> ErrorCode:
    request = push_request(subscription, data, **fields)
    return ErrorCode(client.ask(request, PushTelemetryResponse, 0).error_code)


def metrics_data(name: str = "m", **attributes: str) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.sum.is_monotonic, metric.sum.aggregation_temporality = True, 1  # type: ignore[assignment]
    point = metric.sum.data_points.add(as_double=2)
    for key, value in attributes.items():
        point.attributes.add(key=key).value.string_value = value
    return data.SerializeToString()


def samples(node: RunningNode, family: str) -> list[tuple[dict[str, str], float]]:
    taken: list[NodeSnapshot] = []
    for _ in take_snapshot(node.node, taken):
        pass
    (found,) = [each for each in node_metrics(taken[0], loop_delay_s=0) if each.name == family]
    return [(sample.labels, sample.value) for sample in found.samples]


@pytest.mark.parametrize(("receivers", "listed"), [("", False), ("metrics", True), ("log", True)])
def test_apis_are_listed_only_with_a_receiver(world: World, receivers: str, listed: bool) -> None:
    running = world.start_node(ottla_client_metrics_receivers=receivers)

    apis = running.connect().ask(ApiVersionsRequest(), ApiVersionsResponse, 0).api_keys

    assert {71, 72} & {each.api_key for each in apis} == ({71, 72} if listed else set())


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(GetTelemetrySubscriptionsRequest(client_instance_id=INSTANCE), id="get"),
        pytest.param(PushTelemetryRequest(client_instance_id=INSTANCE, metrics=b"x"), id="push"),
    ],
)
def test_request_to_a_node_without_receivers_closes_the_connection(world: World, request_: Message) -> None:
    running = world.start_node()
    client = running.connect()

    client.send(request_, 0)
    running.run(10)

    assert client.is_closed
    assert client.take_frame() is None
    assert len(running.node.services.client_metrics) == 0


def test_client_without_an_id_gets_one(node: RunningNode) -> None:
    response = get(node.connect(), ZERO_UUID)

    assert response.error_code == ErrorCode.NONE
    assert response.client_instance_id != ZERO_UUID
    assert response.requested_metrics == ["*"]
    assert response.push_interval_ms == 1_000
    assert response.telemetry_max_bytes == BYTES_MAX
    assert response.delta_temporality
    assert response.accepted_compression_types == [4, 3, 1, 2]


@pytest.mark.parametrize("kind", Compression)
def test_push_appears_on_the_page_until_the_connection_ends(node: RunningNode, kind: Compression) -> None:
    client = node.connect()
    subscription = get(client)
    data = compress(kind, metrics_data("bytes.total", topic="t"))

    assert push(client, subscription, data, compression_type=kind) is ErrorCode.NONE
    node.run(1_000)
    assert push(client, subscription, data, compression_type=kind) is ErrorCode.NONE

    labels = {
        "client_instance_id": "MDEyMzQ1Njc4OWFiY2RlZg",
        "client_id": "test",
        "metric": "bytes.total",
        "attributes": "topic=t",
    }
    assert samples(node, "ottla_client_counter") == [(labels, 4)]
    ((info, _),) = samples(node, "ottla_client_info")
    assert (info["client_id"], info["principal"]) == ("test", "User:ANONYMOUS")
    node.node.closed(client.peer.connection, "the client hung up")
    assert samples(node, "ottla_client_counter") == []
    assert samples(node, "ottla_client_instances") == [({}, 0)]


def test_client_that_does_not_match_has_nothing_to_push(node: RunningNode) -> None:
    subscribe(node, {"match": "client_id=other"})

    response = get(node.connect())

    assert (response.requested_metrics, response.push_interval_ms) == ([], 300_000)


def test_changed_subscription_is_sent_at_once_and_ends_the_old_one(node: RunningNode) -> None:
    client = node.connect()
    old = get(client)
    subscribe(node, {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer."})

    assert push(client, old, metrics_data()) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    new = get(client)
    assert new.error_code == ErrorCode.NONE
    assert sorted(new.requested_metrics) == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    node.run(1_000)
    assert push(client, new, metrics_data()) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("fields", "data", "error"),
    [
        pytest.param({"compression_type": 5}, b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="unknown-codec"),
        pytest.param({}, bytes(BYTES_MAX + 1), ErrorCode.TELEMETRY_TOO_LARGE, id="too-large"),
        pytest.param({}, b"\xff", ErrorCode.INVALID_RECORD, id="not-protobuf"),
        pytest.param({"compression_type": 1}, b"not gzip", ErrorCode.INVALID_RECORD, id="not-gzip"),
        pytest.param(
            {"compression_type": 1},
            zlib.compress(bytes(1 << 22), 9, 31),
            ErrorCode.INVALID_RECORD,
            id="bomb-of-gzip",
        ),
        pytest.param(
            {"compression_type": 4},
            compress(Compression.ZSTD, bytes(1 << 26)),
            ErrorCode.INVALID_RECORD,
            id="bomb-of-zstd",
        ),
        pytest.param(
            {"compression_type": 3}, compress(Compression.LZ4, bytes(1 << 20)), ErrorCode.INVALID_RECORD, id="bomb-lz4"
        ),
    ],
)
def test_bad_push_is_rejected(node: RunningNode, fields: dict[str, Any], data: bytes, error: ErrorCode) -> None:
    client = node.connect()

    assert push(client, get(client), data, **fields) is error
    assert samples(node, "ottla_client_counter") == []
    assert node.node.services.work_memory.held_bytes == 0


def start_push(node: RunningNode, number: int, kind: Compression = Compression.GZIP) -> Client:
    """Send the push of another client; if it is compressed, it waits for a thread. `response` returns its result."""
    client = node.connect()
    subscription = get(client, Uuid(number.to_bytes(16, "big")))
    client.send(push_request(subscription, compress(kind, metrics_data()), compression_type=kind), 0)
    return client


def response(client: Client) -> ErrorCode | None:
    decoded = client.response_to(PushTelemetryRequest(), 0)
    return None if decoded is None else ErrorCode(decoded.error_code)  # type: ignore[attr-defined]


def test_pushes_are_decoded_one_at_a_time(node: RunningNode) -> None:
    first = start_push(node, 10)
    others = [start_push(node, 11 + each, Compression.NONE) for each in range(3)]
    node.node.tick()
    assert [response(client) for client in (first, *others)] == [None] * 4

    node.run(100)

    assert [response(client) for client in (first, *others)] == [ErrorCode.NONE] * 4
    assert len(samples(node, "ottla_client_counter")) == 4


def test_push_whose_connection_ends_lets_the_next_one_be_decoded(node: RunningNode) -> None:
    first, second = start_push(node, 10), start_push(node, 11)
    third = start_push(node, 12)

    node.node.closed(second.peer.connection, "the client hung up")
    node.node.closed(first.peer.connection, "the client hung up")
    node.run(100)

    assert response(third) is ErrorCode.NONE
    assert node.node.services.client_metrics.push_slot.held_bytes == 0
    assert node.node.services.work_memory.held_bytes == 0


@pytest.mark.parametrize("too_many", [0, 1])
def test_waiting_push_keeps_its_metrics_only_if_they_are_small_enough(node: RunningNode, too_many: int) -> None:
    start_push(node, 10)
    client = node.connect()
    subscription = get(client)
    info = node.node.connections._connections[client.peer.connection].info
    context = RequestContext(72, 0, 1, "test", info, node.node.services, node.clock.monotonic_ms())
    request = push_request(subscription, bytes(BYTES_MAX + too_many))

    result = push_telemetry.push_telemetry(context, request)
    assert isinstance(result, GeneratorType)
    next(result)

    assert len(request.metrics) == (0 if too_many else BYTES_MAX)
    result.close()


def test_push_is_rejected_while_too_many_wait(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "_PUSHES_WAITING_MAX", 2)

    clients = [start_push(node, 10 + each) for each in range(4)]

    assert [response(client) for client in clients] == [None, None, None, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    node.run(100)
    assert [response(client) for client in clients[:3]] == [ErrorCode.NONE] * 3
    assert samples(node, "ottla_client_metrics_throttled") == [({}, 1)]
    again = start_push(node, 20)
    node.run(100)
    assert response(again) is ErrorCode.NONE


def test_work_memory_is_released_before_a_push_is_decoded(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    work_memory, held_bytes = node.node.services.work_memory, list[int]()

    def decode(data: bytes, on_point: Callable[[Point], object]) -> Steps[None]:
        held_bytes.append(work_memory.held_bytes)
        yield from decode_points(data, on_point)

    monkeypatch.setattr(push_telemetry, "decode_points", decode)
    client = start_push(node, 10)
    assert work_memory.held_bytes > 0
    node.run(10)

    assert response(client) is ErrorCode.NONE
    assert held_bytes == [0]


@pytest.mark.parametrize("instance_id", [ZERO_UUID, Uuid(bytes(15) + b"\x01")])
def test_push_with_a_reserved_id_is_invalid(node: RunningNode, instance_id: Uuid) -> None:
    subscription = GetTelemetrySubscriptionsResponse(client_instance_id=instance_id)

    assert push(node.connect(), subscription, metrics_data()) is ErrorCode.INVALID_REQUEST


def test_client_that_pushes_too_early_is_throttled(node: RunningNode) -> None:
    client = node.connect()
    subscription = get(client)

    assert get(client).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(client, subscription, metrics_data()) is ErrorCode.NONE
    assert push(client, subscription, metrics_data()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(client, subscription, metrics_data(), terminating=True) is ErrorCode.NONE
    assert push(client, subscription, metrics_data(), terminating=True) is ErrorCode.INVALID_REQUEST
    assert samples(node, "ottla_client_metrics_throttled") == [({}, 2)]


def test_silent_instance_is_removed_after_a_minute(node: RunningNode) -> None:
    client = node.connect()
    subscription = get(client)
    push(client, subscription, metrics_data())
    node.run(59_000)
    assert samples(node, "ottla_client_instances") == [({}, 1)]

    node.run(3_000)

    assert samples(node, "ottla_client_instances") == [({}, 0)]
    assert samples(node, "ottla_client_counter") == []


def test_connection_has_one_instance_at_a_time(node: RunningNode) -> None:
    other = node.connect()
    get(other, Uuid(b"another client's"))
    client = node.connect()

    for number in range(10, 20):
        assert get(client, Uuid(number.to_bytes(16, "big"))).error_code == ErrorCode.NONE
        assert get(client, ZERO_UUID).error_code == ErrorCode.NONE
    get(client, Uuid(b"another client's"))

    assert samples(node, "ottla_client_instances") == [({}, 1)]
    node.node.closed(client.peer.connection, "the client hung up")
    assert samples(node, "ottla_client_instances") == [({}, 1)]


def test_strings_of_clients_cannot_forge_metrics(node: RunningNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="ottla.client_metrics")
    client = node.connect()
    forged = 'x"} 1\nkafka_server_forged 1'

    push(client, get(client), metrics_data(forged, **{"k": forged}))

    ((labels, _),) = samples(node, "ottla_client_counter")
    assert "\n" not in labels["metric"] + labels["attributes"]
    assert [record for record in caplog.records if "\n" in record.getMessage()] == []
    assert any("pushed 1 values" in record.getMessage() for record in caplog.records)

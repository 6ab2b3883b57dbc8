"""The cluster as a client sees it: choice of nodes, fallbacks, and retries."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachableError, RequestTimeoutError, kafka_error
from ottla.errors import ConfigurationError, ErrorCode, KafkaError
from ottla.types import Endpoint, TopicPartition
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest

NOWHERE = Endpoint("127.0.0.1", 1)


def test_bootstrap_text_is_read_as_addresses() -> None:
    assert Cluster("a:1, [::1]:2,").bootstrap == (Endpoint("a", 1), Endpoint("::1", 2))


def test_bad_bootstrap_text_names_its_key() -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Cluster("nowhere")


def test_next_bootstrap_address_is_tried_when_the_first_is_dead(broker: Any) -> None:
    broker.serve_topic("t", [1])

    async def run() -> str:
        async with broker, Cluster([NOWHERE, broker.endpoint]) as cluster:
            await cluster.metadata()
            return cluster.cluster_id

    assert asyncio.run(run()) == "a-cluster"


def test_unreachable_cluster_lists_every_attempt() -> None:
    async def run() -> None:
        async with Cluster([NOWHERE, Endpoint("127.0.0.1", 2)]) as cluster:
            await cluster.metadata()

    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1.*; .*127\.0\.0\.1:2"):
        asyncio.run(run())


def test_request_goes_to_the_partitions_leader(make_broker: Callable[[int], Any]) -> None:
    first, second = make_broker(1), make_broker(2)
    second.scripts[HeartbeatRequest] = lambda _: HeartbeatResponse()

    async def run() -> None:
        async with first, second, Cluster([first.endpoint]) as cluster:
            first.serve_topic("t", [1, 2], [first, second])
            await cluster.send_to_leader(TopicPartition("t", 1), HeartbeatRequest(), HeartbeatResponse)

    asyncio.run(run())

    assert len(second.sent(HeartbeatRequest)) == 1


@pytest.mark.parametrize(
    ("partition", "code", "message"),
    [
        pytest.param(TopicPartition("nope", 0), "UNKNOWN_TOPIC_OR_PARTITION", "no topic 'nope'", id="no-topic"),
        pytest.param(TopicPartition("t", 2), "UNKNOWN_TOPIC_OR_PARTITION", "partitions 0 to 1", id="no-partition"),
        pytest.param(TopicPartition("t", 1), "LEADER_NOT_AVAILABLE", "no leader at the moment", id="no-leader"),
    ],
)
def test_partition_without_a_leader_is_an_error(
    broker: Any, partition: TopicPartition, code: str, message: str
) -> None:
    broker.serve_topic("t", [1, -1])

    async def run() -> None:
        async with broker, Cluster([broker.endpoint]) as cluster:
            await cluster.leader(partition)

    with pytest.raises(KafkaError, match=message) as caught:
        asyncio.run(run())

    assert caught.value.code is ErrorCode[code]


def test_metadata_is_cached(broker: Any) -> None:
    broker.serve_topic("t", [1])

    async def run() -> None:
        async with broker, Cluster([broker.endpoint]) as cluster:
            await cluster.leader(TopicPartition("t", 0))
            await cluster.leader(TopicPartition("t", 0))
            cluster.invalidate_topic("t")
            await cluster.leader(TopicPartition("t", 0))

    asyncio.run(run())

    assert len(broker.sent(MetadataRequest)) == 2


def test_coordinator_is_cached_until_invalidated(broker: Any) -> None:
    broker.scripts[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
    )
    broker.scripts[HeartbeatRequest] = lambda _: HeartbeatResponse()

    async def run() -> None:
        async with broker, Cluster([broker.endpoint]) as cluster:
            for _ in range(2):
                await cluster.send_to_coordinator("g", HeartbeatRequest(), HeartbeatResponse)
            cluster.invalidate_coordinator("g")
            await cluster.send_to_coordinator("g", HeartbeatRequest(), HeartbeatResponse)

    asyncio.run(run())

    assert [request.key for request in broker.sent(FindCoordinatorRequest)] == ["g", "g"]


def test_lost_connection_is_reopened(broker: Any) -> None:
    broker.scripts[HeartbeatRequest] = lambda _: (_ for _ in ()).throw(ConnectionResetError)
    broker.serve_topic("t", [1])

    async def run() -> str:
        async with broker, Cluster([broker.endpoint]) as cluster:
            await cluster.metadata()
            with pytest.raises(BrokerUnreachableError):
                await cluster.send_to_any(HeartbeatRequest(), HeartbeatResponse)
            await cluster.metadata()
            return cluster.cluster_id

    assert asyncio.run(run()) == "a-cluster"


def test_unknown_node_is_an_error(broker: Any) -> None:
    broker.serve_topic("t", [1])

    async def run() -> None:
        async with broker, Cluster([broker.endpoint]) as cluster:
            await cluster.send_to_node(7, HeartbeatRequest(), HeartbeatResponse)

    with pytest.raises(BrokerUnreachableError, match=r"no broker has the id 7; there are \[1\]"):
        asyncio.run(run())


def retried(failures: list[Exception], **options: Any) -> int:
    """Return how many attempts it took to get past ``failures``."""

    async def run() -> int:
        attempts = 0

        async def attempt() -> int:
            nonlocal attempts
            attempts += 1
            if failures:
                raise failures.pop(0)
            return attempts

        return await Cluster([NOWHERE]).retry(attempt, **options)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("failure", "options"),
    [
        pytest.param(kafka_error(ErrorCode.NOT_CONTROLLER), {}, id="retriable-code"),
        pytest.param(BrokerUnreachableError("x"), {}, id="unreachable"),
        pytest.param(
            kafka_error(ErrorCode.MEMBER_ID_REQUIRED), {"also": [ErrorCode.MEMBER_ID_REQUIRED]}, id="additional-code"
        ),
        pytest.param(kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), {"never": ()}, id="topic-on-its-way"),
    ],
)
def test_retriable_failure_is_retried(failure: Exception, options: dict[str, Any]) -> None:
    assert retried([failure], **options) == 2


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(kafka_error(ErrorCode.INVALID_CONFIG), id="rejected"),
        pytest.param(kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), id="no-such-topic"),
    ],
)
def test_permanent_failure_is_raised_at_once(failure: Exception) -> None:
    failures = [failure, failure]

    with pytest.raises(type(failure)):
        retried(failures)

    assert failures == [failure]


def test_timeout_of_retries_raises_the_last_failure() -> None:
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        retried([kafka_error(ErrorCode.NOT_CONTROLLER)], timeout_s=0)


def test_metadata_is_refreshed_after_a_leader_is_lost(make_broker: Callable[[int], Any]) -> None:
    first, second = make_broker(1), make_broker(2)
    partition = TopicPartition("t", 0)

    def gone(_: Any) -> None:
        first.serve_topic("t", [1], [first, second])
        raise ConnectionResetError

    first.scripts[HeartbeatRequest] = lambda _: HeartbeatResponse()
    second.scripts[HeartbeatRequest] = gone

    async def run() -> None:
        async with first, second, Cluster([first.endpoint]) as cluster:
            first.serve_topic("t", [2], [first, second])
            second.serve_topic("t", [1], [first, second])
            await cluster.retry(lambda: cluster.send_to_leader(partition, HeartbeatRequest(), HeartbeatResponse))

    asyncio.run(run())

    assert (len(first.sent(HeartbeatRequest)), len(second.sent(HeartbeatRequest))) == (1, 1)


def test_hanging_node_is_tried_last_until_it_responds(make_broker: Callable[[int], Any]) -> None:
    first, second = make_broker(1), make_broker(2)
    first.scripts[HeartbeatRequest] = lambda _: None
    second.scripts[HeartbeatRequest] = lambda _: HeartbeatResponse()

    async def run() -> None:
        async with first, second, Cluster([first.endpoint, second.endpoint]) as cluster:
            with pytest.raises(RequestTimeoutError):
                await cluster.send_to_any(HeartbeatRequest(), HeartbeatResponse, timeout_s=0.02)
            for _ in range(2):
                await cluster.send_to_any(HeartbeatRequest(), HeartbeatResponse)

    asyncio.run(run())

    assert (len(first.sent(HeartbeatRequest)), len(second.sent(HeartbeatRequest))) == (1, 2)


def test_busy_node_is_reached_through_a_new_connection(make_broker: Callable[[int], Any]) -> None:
    only = make_broker(1)
    only.scripts[HeartbeatRequest] = lambda _: None

    async def run() -> Endpoint:
        async with only, Cluster([NOWHERE, only.endpoint]) as cluster:
            with pytest.raises(RequestTimeoutError):
                await cluster.send_to_any(HeartbeatRequest(), HeartbeatResponse, timeout_s=0.02)
            return await cluster.reach_any()

    assert asyncio.run(run()) == only.endpoint


def test_unresponsive_cluster_lists_every_attempt() -> None:
    async def run() -> None:
        async with Cluster([NOWHERE, Endpoint("127.0.0.1", 2)]) as cluster:
            await cluster.reach_any()

    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1.*; .*127\.0\.0\.1:2"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("addresses", "request_timeout_s", "attempt_timeout_s"),
    [
        pytest.param(1, 30.0, 30.0, id="no-other-node"),
        pytest.param(2, 30.0, 10.0, id="time-is-left-for-other-nodes"),
        pytest.param(2, 9.0, 5.0, id="but-each-has-some"),
        pytest.param(2, 3.0, 3.0, id="never-above-the-request-timeout"),
    ],
)
def test_attempt_timeout_is_a_part_of_the_request_timeout_with_several_nodes(
    addresses: int, request_timeout_s: float, attempt_timeout_s: float
) -> None:
    endpoints = [Endpoint("127.0.0.1", port + 1) for port in range(addresses)]

    assert Cluster(endpoints, request_timeout_s=request_timeout_s).attempt_timeout_s == attempt_timeout_s

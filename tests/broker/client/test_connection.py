"""One connection: negotiation, overlapping requests, and messages of failures."""

import asyncio
import gc
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.connection import Connection
from ottla.client.errors import BrokerUnreachableError, ConnectionLostError, RequestTimeoutError, UnsupportedApiError
from ottla.errors import ProtocolError
from ottla.types import Endpoint
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.registry import ApiKey


def test_newest_common_version_is_used(broker: Any) -> None:
    broker.versions[ApiKey.LIST_GROUPS] = (0, 3)

    async def run() -> int:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            version = connection.version_for(ListGroupsRequest)
            await connection.close()
            return version

    assert asyncio.run(run()) == 3


def test_unstable_version_is_not_used_unless_asked_for(broker: Any) -> None:
    async def run() -> int:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            version = connection.version_for(InitProducerIdRequest)
            await connection.close()
            return version

    assert asyncio.run(run()) == InitProducerIdRequest.versions.last - 1


def test_api_versions_falls_back_to_the_version_of_an_older_broker(broker: Any) -> None:
    broker.versions[ApiKey.API_VERSIONS] = (0, 2)

    async def run() -> int:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            await connection.close()
            return len(connection.versions)

    assert asyncio.run(run()) == len(ApiKey)
    assert len(broker.sent(ApiVersionsRequest)) == 1


@pytest.mark.parametrize(
    ("served", "message"),
    [
        pytest.param(None, "does not serve LIST_GROUPS", id="not-served"),
        pytest.param((6, 7), "serves LIST_GROUPS v6-v7, this client speaks v0-v5", id="too-new"),
    ],
)
def test_api_without_a_common_version_is_an_error(broker: Any, served: tuple[int, int] | None, message: str) -> None:
    if served is None:
        del broker.versions[ApiKey.LIST_GROUPS]
    else:
        broker.versions[ApiKey.LIST_GROUPS] = served

    async def run() -> None:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            try:
                await connection.send(ListGroupsRequest(), ListGroupsResponse)
            finally:
                await connection.close()

    with pytest.raises(UnsupportedApiError, match=message):
        asyncio.run(run())


def test_overlapping_requests_get_their_own_responses(broker: Any) -> None:
    broker.scripts[HeartbeatRequest] = lambda request: HeartbeatResponse(error_code=request.generation_id)

    async def run() -> list[int]:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            requests = [HeartbeatRequest(group_id="g", generation_id=number, member_id="m") for number in range(20)]
            responses = await asyncio.gather(*(connection.send(request, HeartbeatResponse) for request in requests))
            await connection.close()
            return [response.error_code for response in responses]

    assert asyncio.run(run()) == list(range(20))


def test_late_response_is_a_timeout_that_names_broker_and_request(broker: Any) -> None:
    broker.scripts[HeartbeatRequest] = lambda _: None

    async def run() -> None:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            try:
                await connection.send(HeartbeatRequest(), HeartbeatResponse, timeout_s=0.01)
            finally:
                await connection.close()

    with pytest.raises(RequestTimeoutError, match=r"127\.0\.0\.1:\d+ did not respond to HEARTBEAT v4 within 0.01 s"):
        asyncio.run(run())


def test_closed_connection_fails_every_pending_request(broker: Any) -> None:
    def cut(request: HeartbeatRequest) -> None:
        if request.generation_id == 1:
            raise ConnectionResetError

    broker.scripts[HeartbeatRequest] = cut

    async def run() -> tuple[list[BaseException | HeartbeatResponse], bool]:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            requests = [HeartbeatRequest(generation_id=number) for number in (0, 1)]
            responses = await asyncio.gather(
                *(connection.send(request, HeartbeatResponse) for request in requests), return_exceptions=True
            )
            is_open = connection.is_open
            await connection.close()
            return responses, is_open

    responses, is_open = asyncio.run(run())

    assert [type(response) for response in responses] == [ConnectionLostError, ConnectionLostError]
    assert not is_open


def test_connection_lost_during_a_write_is_reported_once(broker: Any) -> None:
    complaints: list[Any] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with broker:
            connection = await Connection.open(broker.endpoint)

            async def drain() -> None:
                raise ConnectionResetError("Connection lost")

            connection._writer.drain = drain  # type: ignore[method-assign]
            with pytest.raises(ConnectionLostError, match="Connection lost"):
                await connection.send(ListGroupsRequest(), ListGroupsResponse)
            await connection.close()
        gc.collect()

    asyncio.run(run())
    complaints = [context for context in complaints if "never retrieved" in context["message"]]
    assert complaints == [], "asyncio does not report an error that was raised already"


def test_closed_connection_rejects_requests(broker: Any) -> None:
    async def run() -> None:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            await connection.close()
            await connection.send(HeartbeatRequest(), HeartbeatResponse)

    with pytest.raises(ConnectionLostError, match="was closed"):
        asyncio.run(run())


def test_invalid_response_closes_the_connection(broker: Any) -> None:
    broker.scripts[HeartbeatRequest] = lambda _: HeartbeatResponse()

    async def run() -> bool:
        async with broker:
            connection = await Connection.open(broker.endpoint)
            with pytest.raises(ProtocolError, match="sent an invalid response to HEARTBEAT v4"):
                await connection.send(HeartbeatRequest(), ListGroupsResponse)
            return connection.is_open

    assert asyncio.run(run()) is False


def open_to(start: bytes) -> Callable[[], None]:
    """Return a function that connects to a server that sends only ``start``."""

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1024)
            writer.write(start)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await Connection.open(Endpoint("127.0.0.1", port))

    return lambda: asyncio.run(run())


@pytest.mark.parametrize(
    ("start", "message"),
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP, not Kafka", id="http"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x50", "speaks TLS", id="tls"),
        pytest.param(struct.pack(">i", -1), "a response of -1 bytes", id="negative-size"),
        pytest.param(struct.pack(">i", (1 << 30) + 1), "a response of 1073741825 bytes", id="size-above-the-limit"),
        pytest.param(b"", "closed the connection", id="closed-at-once"),
    ],
)
def test_peer_that_is_no_broker_is_identified(start: bytes, message: str) -> None:
    with pytest.raises(BrokerUnreachableError, match=message):
        open_to(start)()


def test_error_without_a_listener_has_a_remedy() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"nothing listens at 127\.0\.0\.1:1; start a node there"):
        asyncio.run(Connection.open(Endpoint("127.0.0.1", 1)))


def test_unknown_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(host: str, port: int) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio, "open_connection", fail)

    with pytest.raises(BrokerUnreachableError, match="cannot connect to nowhere:9092: Name or service not known"):
        asyncio.run(Connection.open(Endpoint("nowhere", 9092)))


def test_port_without_a_response_times_out_and_is_named() -> None:
    async def run() -> None:
        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await Connection.open(Endpoint("127.0.0.1", port), timeout_s=0.05)

    with pytest.raises(
        BrokerUnreachableError, match=r"127\.0\.0\.1:\d+ accepted a connection but said nothing for 0\.05 s"
    ):
        asyncio.run(run())


def test_address_without_a_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(host: str, port: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)

    with pytest.raises(BrokerUnreachableError, match=r"h:9092 did not accept a connection within 0\.01 s"):
        asyncio.run(Connection.open(Endpoint("h", 9092), timeout_s=0.01))

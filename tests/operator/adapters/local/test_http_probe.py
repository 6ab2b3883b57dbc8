"""One HTTP GET without a library: status and body, and never an exception."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla_operator.adapters.local import http_probe
from ottla_operator.adapters.local.http_probe import ProbeResponse

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(handler: Handler, timeout_s: float = 10) -> tuple[ProbeResponse, bytes]:
    async def run() -> tuple[ProbeResponse, bytes]:
        asked = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            asked = await reader.readuntil(b"\r\n\r\n")
            try:
                await handler(reader, writer)
            finally:
                writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            response = await http_probe.get("127.0.0.1", port, "/readyz", timeout_s=timeout_s)
        return response, asked

    return asyncio.run(run())


def says(data: bytes) -> Handler:
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return handler


@pytest.mark.parametrize(
    ("data", "response", "is_good"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nfine", ProbeResponse(200, "fine"), True, id="good"),
        pytest.param(b"HTTP/1.0 503 No\r\n\r\nwhy", ProbeResponse(503, "why"), False, id="rejected"),
        pytest.param(b"HTTP/1.0 204 Empty\r\n\r\n", ProbeResponse(204, ""), True, id="empty"),
        pytest.param(b"SSH-2.0-x\r\n", ProbeResponse(0, "the response is not HTTP"), False, id="not-http"),
        pytest.param(b"HTTP/1.0 soon\r\n\r\n", None, False, id="no-status"),
        pytest.param(b"", None, False, id="silence"),
    ],
)
def test_response_is_parsed_or_status_0(data: bytes, response: ProbeResponse | None, is_good: bool) -> None:
    found, asked = ask(says(data))

    assert found.is_good is is_good
    assert asked.startswith(b"GET /readyz HTTP/1.0\r\n")
    if response is None:
        assert found.status == 0
    else:
        assert found == response


def test_closed_port_is_status_0() -> None:
    assert asyncio.run(http_probe.get("127.0.0.1", 1, "/", timeout_s=10)).status == 0


def test_silent_peer_is_status_0() -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    assert ask(hang, timeout_s=0.05)[0].status == 0

"""One HTTP GET without a library: status and body, and never an exception."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla_operator.adapters.local import http_probe
from ottla_operator.adapters.local.http_probe import Answer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ask(handler: Handler, timeout_s: float = 10) -> tuple[Answer, bytes]:
    async def run() -> tuple[Answer, bytes]:
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
            answer = await http_probe.get("127.0.0.1", port, "/readyz", timeout_s=timeout_s)
        return answer, asked

    return asyncio.run(run())


def says(data: bytes) -> Handler:
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return handler


@pytest.mark.parametrize(
    ("data", "answer", "is_good"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nfine", Answer(200, "fine"), True, id="good"),
        pytest.param(b"HTTP/1.0 503 No\r\n\r\nwhy", Answer(503, "why"), False, id="refused"),
        pytest.param(b"HTTP/1.0 204 Empty\r\n\r\n", Answer(204, ""), True, id="empty"),
        pytest.param(b"SSH-2.0-x\r\n", Answer(0, "the answer is not HTTP"), False, id="not-http"),
        pytest.param(b"HTTP/1.0 soon\r\n\r\n", None, False, id="no-status"),
        pytest.param(b"", None, False, id="silence"),
    ],
)
def test_answer(data: bytes, answer: Answer | None, is_good: bool) -> None:
    found, asked = ask(says(data))

    assert found.is_good is is_good
    assert asked.startswith(b"GET /readyz HTTP/1.0\r\n")
    if answer is None:
        assert found.status == 0
    else:
        assert found == answer


def test_nobody_there() -> None:
    assert asyncio.run(http_probe.get("127.0.0.1", 1, "/", timeout_s=10)).status == 0


def test_somebody_who_never_answers() -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    assert ask(hang, timeout_s=0.05)[0].status == 0

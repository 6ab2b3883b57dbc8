"""One HTTP GET over asyncio, for asking a local node how it is without any HTTP library."""

import asyncio
from dataclasses import dataclass

_SIZE_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: ``status`` is 0 when nobody answered in HTTP."""

    status: int
    body: str

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


async def get(host: str, port: int, path: str, *, timeout_s: float) -> Answer:
    """Return the answer to ``GET http://host:port/path``; never raises for what the network does."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _get(host, port, path)
    except (OSError, TimeoutError, ValueError) as error:
        return Answer(0, str(error) or type(error).__name__)


async def _get(host: str, port: int, path: str) -> Answer:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("ascii"))
        await writer.drain()
        answer = bytearray()
        while len(answer) < _SIZE_BYTES_MAX and (more := await reader.read(_SIZE_BYTES_MAX - len(answer))):
            answer += more
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status_line = head.partition(b"\r\n")[0].split()
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/"):
        return Answer(0, "the answer is not HTTP")
    return Answer(int(status_line[1]), body.decode("utf-8", "replace"))

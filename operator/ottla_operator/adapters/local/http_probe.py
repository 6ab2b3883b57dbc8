"""One HTTP GET over asyncio, for probes of a local node without an HTTP library."""

import asyncio
from dataclasses import dataclass

_SIZE_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """A response; ``status`` is 0 without a response in HTTP."""

    status: int
    body: str

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


async def get(host: str, port: int, path: str, *, timeout_s: float) -> ProbeResponse:
    """Return the response to ``GET http://host:port/path``; failures of the network are a response as well."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _get(host, port, path)
    except (OSError, TimeoutError, ValueError) as error:
        return ProbeResponse(0, str(error) or type(error).__name__)


async def _get(host: str, port: int, path: str) -> ProbeResponse:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("ascii"))
        await writer.drain()
        received = bytearray()
        while len(received) < _SIZE_BYTES_MAX and (more := await reader.read(_SIZE_BYTES_MAX - len(received))):
            received += more
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    status_line = head.partition(b"\r\n")[0].split()
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/"):
        return ProbeResponse(0, "the response is not HTTP")
    return ProbeResponse(int(status_line[1]), body.decode("utf-8", "replace"))

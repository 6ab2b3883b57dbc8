"""What speaks at a port: Kafka, TLS, HTTP, or nothing that is known."""

import asyncio
import ssl
import struct
from enum import Enum
from typing import Final

from ottla.types import Endpoint

ANSWER_TIMEOUT_S: Final = 3.0
_CORRELATION_ID: Final = 0x0D0C
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""The shortest question that every Kafka answers, before any login: size, ApiVersions v0, no client id."""
_HTTP: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_NO_TLS_THERE: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})


class Speaks(Enum):
    """What somebody at a port speaks."""

    KAFKA = "Kafka without TLS"
    TLS = "TLS"
    HTTP = "HTTP"
    SOMETHING = "something that is neither Kafka nor TLS nor HTTP"
    NOTHING = "nothing that it says"


async def what_speaks_at(endpoint: Endpoint, timeout_s: float) -> Speaks:
    """Return what answers there: asked as a Kafka client, then with a TLS handshake, then as a browser."""
    limit_s = min(timeout_s, ANSWER_TIMEOUT_S)
    answer = await _ask(endpoint, _API_VERSIONS, limit_s)
    if answer[4:8] == _CORRELATION_ID.to_bytes(4, "big"):
        return Speaks.KAFKA
    if answer[:2] in (b"\x15\x03", b"\x16\x03"):
        return Speaks.TLS
    if answer.startswith(b"HTTP/"):
        return Speaks.HTTP
    if await _takes_tls(endpoint, limit_s):
        return Speaks.TLS
    if (await _ask(endpoint, _HTTP, limit_s)).startswith(b"HTTP/"):
        return Speaks.HTTP
    return Speaks.SOMETHING if answer else Speaks.NOTHING


async def _ask(endpoint: Endpoint, question: bytes, timeout_s: float) -> bytes:
    """Return the start of what is answered; empty where nothing is."""
    answer = b""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                writer.write(question)
                while len(answer) < 8 and (more := await reader.read(64)):
                    answer += more
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return answer
    return answer


async def _takes_tls(endpoint: Endpoint, timeout_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, ssl=context, server_hostname=endpoint.host
            )
    except ssl.SSLError as error:
        # Who refuses a handshake in the words of TLS speaks it.
        reason = error.reason or ""
        return "ALERT" in reason and reason not in _NO_TLS_THERE
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True

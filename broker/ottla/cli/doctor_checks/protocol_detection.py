"""Detect the protocol of a port: Kafka, TLS, HTTP, or an unknown one."""

import asyncio
import ssl
import struct
from enum import Enum
from typing import Final

from ottla.types import Endpoint

RESPONSE_TIMEOUT_S: Final = 3.0
_CORRELATION_ID: Final = 0x0D0C
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""The shortest request that every Kafka serves without authentication: size, ApiVersions v0, no client id."""
_HTTP: Final = b"HEAD / HTTP/1.0\r\n\r\n"
_NO_TLS_THERE: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})


class DetectedProtocol(Enum):
    """The protocol of the process at a port."""

    KAFKA = "Kafka without TLS"
    TLS = "TLS"
    HTTP = "HTTP"
    SOMETHING = "something that is neither Kafka nor TLS nor HTTP"
    NOTHING = "no protocol: it sends nothing"


async def detect_protocol(endpoint: Endpoint, timeout_s: float) -> DetectedProtocol:
    """Return the protocol there: send a Kafka request, then a TLS handshake, then an HTTP request."""
    limit_s = min(timeout_s, RESPONSE_TIMEOUT_S)
    response = await _request(endpoint, _API_VERSIONS, limit_s)
    if response[4:8] == _CORRELATION_ID.to_bytes(4, "big"):
        return DetectedProtocol.KAFKA
    if response[:2] in (b"\x15\x03", b"\x16\x03"):
        return DetectedProtocol.TLS
    if response.startswith(b"HTTP/"):
        return DetectedProtocol.HTTP
    if await _takes_tls(endpoint, limit_s):
        return DetectedProtocol.TLS
    if (await _request(endpoint, _HTTP, limit_s)).startswith(b"HTTP/"):
        return DetectedProtocol.HTTP
    return DetectedProtocol.SOMETHING if response else DetectedProtocol.NOTHING


async def _request(endpoint: Endpoint, request: bytes, timeout_s: float) -> bytes:
    """Send ``request`` and return the start of the response; empty without one."""
    response = b""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                writer.write(request)
                while len(response) < 8 and (more := await reader.read(64)):
                    response += more
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return response
    return response


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
        # A peer that rejects a handshake with a TLS alert speaks TLS.
        reason = error.reason or ""
        return "ALERT" in reason and reason not in _NO_TLS_THERE
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True

"""`Route`: one API in one version, resolved once; `read_client_id` for the rest of a request's header."""

import struct
from dataclasses import dataclass

from ottla.errors import ProtocolError
from ottla.handlers.api import ListenerRole, Served
from ottla.handlers.catalog import find, is_served_to
from ottla.wire.client_id import decode_malformed
from ottla.wire.codec import Message
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version

FIXED_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CLIENT_ID_LENGTH = struct.Struct(">h")


@dataclass(slots=True)
class Route:
    """Handler, types and counters of one API in one version."""

    served: Served
    api_name: str
    version: int
    request_type: type[Message]
    has_flexible_request_header: bool
    has_flexible_response_header: bool
    requests: int = 0
    errors: int = 0
    total_time_ms: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


def find_route(role: ListenerRole, api_key: int, version: int) -> Route | None:
    """Return a new route; None if listeners of this role do not serve the API in this version."""
    served = find(api_key, version)
    if served is None or not is_served_to(role, ApiKey(api_key)):
        return None
    key = ApiKey(api_key)
    return Route(
        served=served,
        api_name=request_type(key).__name__.removesuffix("Request"),
        version=version,
        request_type=request_type(key),
        has_flexible_request_header=request_header_version(key, version) == 2,
        has_flexible_response_header=response_header_version(key, version) == 1,
    )


def read_client_id(frame: memoryview) -> tuple[str | None, int]:
    """Return the header's client id and the position after it."""
    (size,) = _CLIENT_ID_LENGTH.unpack_from(frame, FIXED_HEADER.size)
    start = FIXED_HEADER.size + _CLIENT_ID_LENGTH.size
    if size < 0:
        return None, start
    if start + size > len(frame):
        raise ProtocolError(f"the client id claims {size} bytes with {len(frame) - start} left")
    data = frame[start : start + size]
    try:
        return str(data, "utf-8"), start + size
    except UnicodeDecodeError:
        return decode_malformed(data), start + size

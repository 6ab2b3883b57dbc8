"""`VersionedApi`: one API in one version: the encoded start of its requests, and the type of its responses."""

import struct

from ottla.ports import Chunk
from ottla.wire.codec import Message
from ottla.wire.codec.message import Splice, splice_chunks
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version, response_type

_SIZE = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_ID_POSITION = 8
"""In a frame: after its size, the API key and the version."""


class VersionedApi:
    """Encoder of one API's requests; built once per connection, API and version.

    Attributes:
        response_type: class of the responses.
        has_flexible_response_header: whether tagged fields follow the correlation id of a response.
    """

    __slots__ = ("_head", "api_key", "has_flexible_response_header", "response_type", "version")

    def __init__(self, api_key: ApiKey, version: int, *, client_id: str) -> None:
        self.api_key = api_key
        self.version = version
        self.response_type: type[Message] = response_type(api_key)
        self.has_flexible_response_header = response_header_version(api_key, version) == 1
        header = RequestHeader(request_api_key=api_key, request_api_version=version, client_id=client_id)
        self._head = _SIZE.pack(0) + header.encode(request_header_version(api_key, version))

    def frame(self, request: Message, correlation_id: int) -> list[Chunk]:
        """Return the frame of ``request``.

        Raises:
            ValueError: the request has a value that the version cannot carry.
        """
        out = bytearray(self._head)
        splices: list[Splice] = []
        request.write(self.version, out, splices)
        size = len(out) - _SIZE.size
        if splices:
            size += sum(len(data) for _, data in splices)
        _SIZE.pack_into(out, 0, size)
        _CORRELATION_ID.pack_into(out, _CORRELATION_ID_POSITION, correlation_id)
        return splice_chunks(out, splices)

"""The headers before every request and response.

Source: RequestHeader.json, ResponseHeader.json; the client id keeps its int16 length even in flexible versions.
"""

from ottla.wire.codec import Message, int16, int32, string


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+")

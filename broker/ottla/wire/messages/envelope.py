"""Envelope (api key 58, v0): a broker forwards a client's request to the controller.

Source: EnvelopeRequest.json, EnvelopeResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, bytes_, int16


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+", served_on="controller"):
    request_data: bytes = bytes_("0+")
    request_principal: bytes | None = bytes_("0+", nullable="0+")
    client_host_address: bytes = bytes_("0+")


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    error_code: int = int16("0+")

"""SaslAuthenticate (api key 36, v0-v2): one step of a SASL exchange.

Source: SaslAuthenticateRequest.json, SaslAuthenticateResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, bytes_, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+", served_on="broker controller"):
    auth_bytes: bytes = bytes_("0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = bytes_("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)

"""SaslHandshake (api key 17, v0-v1): choose a SASL mechanism.

Source: SaslHandshakeRequest.json, SaslHandshakeResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, array, int16, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none", served_on="broker controller"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")

"""UnregisterBroker (api key 64, v0): remove a broker from the cluster.

Source: UnregisterBrokerRequest.json, UnregisterBrokerResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, int16, int32, string


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+", served_on="broker controller"):
    broker_id: int = int32("0+")


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")

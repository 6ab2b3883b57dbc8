"""PushTelemetry (api key 72, v0): a client sends its metrics (KIP-714).

Source: PushTelemetryRequest.json, PushTelemetryResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, boolean, bytes_, int8, int16, int32, uuid


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+", served_on="broker"):
    client_instance_id: Uuid = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = bytes_("0+")


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")

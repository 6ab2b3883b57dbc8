"""GetTelemetrySubscriptions (api key 71, v0): the client metrics that the cluster requests (KIP-714).

Source: GetTelemetrySubscriptionsRequest.json, GetTelemetrySubscriptionsResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, array, boolean, int16, int32, uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+", served_on="broker"):
    client_instance_id: Uuid = uuid("0+")


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    client_instance_id: Uuid = uuid("0+")
    subscription_id: int = int32("0+")
    accepted_compression_types: list[int] = array("int8", "0+")
    push_interval_ms: int = int32("0+")
    telemetry_max_bytes: int = int32("0+")
    delta_temporality: bool = boolean("0+")
    requested_metrics: list[str] = array("string", "0+")

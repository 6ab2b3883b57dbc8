"""ExpireDelegationToken (api key 40, v1-v2): shorten or end a delegation token.

Source: ExpireDelegationTokenRequest.json, ExpireDelegationTokenResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+", served_on="broker controller"):
    hmac: bytes = bytes_("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")

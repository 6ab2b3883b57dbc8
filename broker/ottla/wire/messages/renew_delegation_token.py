"""RenewDelegationToken (api key 39, v1-v2): extend a delegation token.

Source: RenewDelegationTokenRequest.json, RenewDelegationTokenResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, bytes_, int16, int32, int64


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+", served_on="broker controller"):
    hmac: bytes = bytes_("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")

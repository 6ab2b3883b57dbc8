"""AddOffsetsToTxn (api key 25, v0-v4): enlist a group's offsets in a transaction.

Source: AddOffsetsToTxnRequest.json, AddOffsetsToTxnResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, api_key=25, versions="0-4", flexible="3+", served_on="broker"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Message, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")

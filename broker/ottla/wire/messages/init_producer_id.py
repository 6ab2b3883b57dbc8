"""InitProducerId (api key 22, v0-v6): a producer id and epoch, for idempotence or for a transactional id.

Source: InitProducerIdRequest.json, InitProducerIdResponse.json (Kafka 4.3).
"""

from ottla.wire.codec import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(
    Message, api_key=22, versions="0-6", flexible="2+", served_on="broker", latest_version_unstable=True
):
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)

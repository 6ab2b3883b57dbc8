"""ConsumerGroupHeartbeat (api key 68, v0-v1): join, stay in and leave a consumer group (KIP-848).

Source: ConsumerGroupHeartbeatRequest.json, ConsumerGroupHeartbeatResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, int16, int32, string, struct, uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: Uuid = uuid("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+", served_on="broker"):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array("string", "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, "0+", nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: Uuid = uuid("0+")
    partitions: list[int] = array("int32", "0+")


class Assignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions, "0+"
    )


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)

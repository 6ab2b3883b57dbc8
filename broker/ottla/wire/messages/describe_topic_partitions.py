"""DescribeTopicPartitions (api key 75, v0): topics' partitions page by page, with eligible leaders (KIP-966).

Source: DescribeTopicPartitionsRequest.json, DescribeTopicPartitionsResponse.json (Kafka 4.3).
"""

from ottla.types import Uuid
from ottla.wire.codec import Message, Struct, array, boolean, int16, int32, string, struct, uuid


class TopicRequest(Struct):
    name: str = string("0+")


class DescribeTopicPartitionsRequestCursor(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+", served_on="broker"):
    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = struct(
        DescribeTopicPartitionsRequestCursor, "0+", nullable="0+", default=None
    )


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32", "0+")
    isr_nodes: list[int] = array("int32", "0+")
    eligible_leader_replicas: list[int] | None = array("int32", "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", "0+", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32", "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: Uuid = uuid("0+", ignorable=True)
    is_internal: bool = boolean("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition, "0+")
    topic_authorized_operations: int = int32("0+", default=-(2**31))


class DescribeTopicPartitionsResponseCursor(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor: DescribeTopicPartitionsResponseCursor | None = struct(
        DescribeTopicPartitionsResponseCursor, "0+", nullable="0+", default=None
    )

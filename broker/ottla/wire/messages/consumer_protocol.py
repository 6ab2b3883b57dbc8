"""Subscriptions and assignments that members of classic consumer groups exchange inside JoinGroup and SyncGroup.

Both travel behind an int16 version. Source: ConsumerProtocol*.json of Apache Kafka 4.3.
"""

from ottla.wire.codec import Message, Struct, array, bytes_, int32, string


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array("int32", "1+")


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[str] = array("string", "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+"
    )
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)

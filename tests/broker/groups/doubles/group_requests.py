"""Commands of recorded scenarios, as requests to a group coordinator."""

import re
import struct
from collections.abc import Callable
from typing import Any

from ottla.coordinator.partitioner import partition_for_key
from ottla.types import CONSUMER_OFFSETS_TOPIC
from ottla.wire.codec import Message
from ottla.wire.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_topics,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

OFFSETS_PARTITIONS = 4
UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
KAFKA_UUID = re.compile(r"[0-9A-Za-z_-]{22}")


class Names:
    """Makes recordings comparable: member ids are replaced by the name of their client."""

    def __init__(self, group_suffix: str = "") -> None:
        self.group_suffix = group_suffix
        self.member_ids: dict[str, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._shown: dict[str, str] = {}

    def learn(self, client: str, member_id: str) -> None:
        if UUID.search(member_id) or KAFKA_UUID.fullmatch(member_id):
            count = sum(shown.rstrip("'") == f"${client}" for shown in self._shown.values())
            self._shown.setdefault(member_id, f"${client}" + "'" * count)
            self.member_ids[client] = member_id

    def member_id(self, text: str) -> str:
        """Return the member id for ``text`` in a command."""
        by_shown = {shown: member_id for member_id, shown in self._shown.items()}
        if text == "-":
            return ""
        return self.member_ids.get(text.removeprefix("$")) or by_shown.get(text, text)

    def shown(self, member_id: str) -> str:
        return self._shown.get(member_id) or UUID.sub("-?", member_id) or "-"

    def group_id(self, group: str) -> str:
        return group + self.group_suffix if group else ""

    def topic(self, topic: Any) -> str:
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        return topic.name or names.get(topic.topic_id, "?")


class Command:
    """One line: a client and its request."""

    def __init__(self, line: str) -> None:
        self.client, self.api, *pairs = line.split()
        self.options = dict(pair.split("=", 1) for pair in pairs)

    def get(self, key: str, default: str = "-") -> str:
        return self.options.get(key, default)

    def version(self, latest: int) -> int:
        return int(self.options.get("v", latest))

    def text(self, key: str) -> str:
        value = self.get(key)
        return "" if value == "-" else value

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """Return ``x:1,y`` as (x, 1), (y, "")."""
        return [(part.partition(":")[0], part.partition(":")[2]) for part in self.text(key).split(",") if part]


def group_of(command: Command, names: Names) -> str:
    return names.group_id(command.text("group"))


def groups_of(command: Command, names: Names) -> list[str]:
    return [names.group_id(group) for group in command.text("groups").split(",")]


def split_names(text: str) -> list[str]:
    """Return the names of ``x+y``."""
    return [name for name in text.split("+") if name]


def subscription_of(command: Command) -> list[str] | None:
    """Return the topics of a heartbeat; None says that they have not changed."""
    return split_names(command.text("topics")) if "topics" in command.options else None


def join(command: Command, names: Names) -> tuple[Message, int]:
    session_ms = int(command.get("session", "30000"))
    return join_group.JoinGroupRequest(
        group_id=group_of(command, names),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=int(command.get("rebalance", "60000")) if command.version(9) else -1,
        member_id=names.member_id(command.get("member")),
        group_instance_id=command.options.get("instance"),
        protocol_type=command.get("type", "consumer"),
        protocols=[
            join_group.JoinGroupRequestProtocol(name=name, metadata=metadata_of(text))
            for name, text in command.pairs("protocols")
        ],
        reason=command.options.get("reason"),
    ), command.version(9)


def metadata_of(text: str) -> bytes:
    """Return a subscription to the topics ``x+y``, or, with a leading ``!``, malformed bytes.

    ``x;v=3;owned=x/0/1+y/2;rack=r``: its version (default 0), and what it says besides the topics.
    """
    if text.startswith("!"):
        return text[1:].encode()
    topics, *pairs = text.split(";")
    said = dict(pair.split("=") for pair in pairs)
    version = int(said.get("v", 0))
    subscription = ConsumerProtocolSubscription(
        topics=split_names(topics),
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in topic_partitions(said.get("owned", ""))
        ],
        rack_id=said.get("rack"),
    )
    return struct.pack(">h", version) + subscription.encode(min(version, 3))


def assignment_of(text: str) -> bytes:
    """Return ``text``, or, with a leading ``=``, the assignment ``x/0/1+y/2`` (version 0); ``;x``: its user data."""
    if not text.startswith("="):
        return text.encode()
    assigned, _, user_data = text[1:].partition(";")
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in topic_partitions(assigned)
        ],
        user_data=user_data.encode() or None,
    )
    return struct.pack(">h", 0) + assignment.encode(0)


def topic_partitions(text: str) -> list[tuple[str, list[int]]]:
    """Return ``x/0/1+y/2`` as [(x, [0, 1]), (y, [2])]."""
    parts = [part.split("/") for part in text.split("+") if part]
    return [(topic, [int(index) for index in indexes]) for topic, *indexes in parts]


def sync(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(5)
    return sync_group.SyncGroupRequest(
        group_id=group_of(command, names),
        generation_id=int(command.get("generation", "1")),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        group_instance_id=command.options.get("instance"),
        protocol_type=command.options.get("type", "consumer" if version >= 5 else None),
        protocol_name=command.options.get("protocol", "range" if version >= 5 else None),
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id=names.member_id(member), assignment=assignment_of(text))
            for member, text in command.pairs("assign")
        ],
    ), version


def beat(command: Command, names: Names) -> tuple[Message, int]:
    return heartbeat.HeartbeatRequest(
        group_id=group_of(command, names),
        generation_id=int(command.get("generation", "1")),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        group_instance_id=command.options.get("instance"),
    ), command.version(4)


def leave(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(5)
    members = command.text("members").split(",") if "members" in command.options else [f"${command.client}"]
    if version < 3:
        return leave_group.LeaveGroupRequest(
            group_id=group_of(command, names), member_id=names.member_id(members[0])
        ), version
    identities = []
    for member in members:
        member_id, _, instance = member.partition("@")
        identities.append(
            leave_group.MemberIdentity(
                member_id=names.member_id(member_id or "-"),
                group_instance_id=instance or None,
                reason=command.options.get("reason"),
            )
        )
    return leave_group.LeaveGroupRequest(group_id=group_of(command, names), members=identities), version


def commit(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(9)
    topics: dict[str, list[offset_commit.OffsetCommitRequestPartition]] = {}
    for topic, rest in command.pairs("offsets"):
        partition, offset, *metadata = rest.split(":")
        text = metadata[0] if metadata else ""
        if match := re.fullmatch(r"(.+)\*(\d+)", text):
            text = match[1] * int(match[2])
        topics.setdefault(topic, []).append(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=int(partition),
                committed_offset=int(offset),
                committed_leader_epoch=int(command.get("epoch", "-1")),
                committed_metadata=None if text == "null" else text,
            )
        )
    return offset_commit.OffsetCommitRequest(
        group_id=group_of(command, names),
        generation_id_or_member_epoch=int(command.get("generation", "-1")),
        member_id=names.member_id(command.get("member")),
        group_instance_id=command.options.get("instance"),
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name=name, topic_id=names.topic_ids.get(name, bytes(15) + b"\x7f"), partitions=partitions
            )
            for name, partitions in topics.items()
        ],
    ), version


def txn_commit(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(4)  # Kafka verifies from version 5 on, even where verification is disabled
    topics: dict[str, list[txn_offset_commit.TxnOffsetCommitRequestPartition]] = {}
    for topic, rest in command.pairs("offsets"):
        partition, offset, *metadata = rest.split(":")
        text, _, count = "".join(metadata).partition("*")
        topics.setdefault(topic, []).append(
            txn_offset_commit.TxnOffsetCommitRequestPartition(
                partition_index=int(partition),
                committed_offset=int(offset),
                committed_leader_epoch=int(command.get("epoch", "-1")),
                committed_metadata=None if text == "null" else text * int(count or 1),
            )
        )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=f"{command.get('producer', '9')}{names.group_suffix}",
        group_id=group_of(command, names),
        producer_id=int(command.get("producer", "9")),
        producer_epoch=int(command.get("producer_epoch", "0")),
        generation_id=int(command.get("generation", "-1")),
        member_id=names.member_id(command.get("member")),
        group_instance_id=command.options.get("instance"),
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    ), version


def end_txn(command: Command, names: Names) -> tuple[Message, int]:
    """Return the request with the marker that ends the producer's transaction in the group's partition."""
    partition = partition_for_key(group_of(command, names), OFFSETS_PARTITIONS)
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=int(command.get("producer", "9")),
        producer_epoch=int(command.get("producer_epoch", "0")),
        transaction_result=command.get("result") == "commit",
        coordinator_epoch=int(command.get("coordinator_epoch", "0")),
        topics=[
            write_txn_markers.WritableTxnMarkerTopic(name=CONSUMER_OFFSETS_TOPIC, partition_indexes=[partition]),
        ],
    )
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker]), 2


def fetch(command: Command, names: Names) -> tuple[Message, int]:
    version = command.version(9)
    requested = None
    if command.get("topics") != "all":
        requested = {topic: [int(index) for index in rest.split(":")] for topic, rest in command.pairs("topics")}
    stable = command.get("stable") == "yes"
    if version < 8:
        topics = (
            None
            if requested is None
            else [
                offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in requested.items()
            ]
        )
        group = group_of(command, names)
        return offset_fetch.OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable), version
    groups = [
        offset_fetch.OffsetFetchRequestGroup(
            group_id=names.group_id(group),
            member_id=names.member_id(command.get("member")) if "member" in command.options else None,
            member_epoch=int(command.get("epoch", "-1")),
            topics=None
            if requested is None
            else [
                offset_fetch.OffsetFetchRequestTopics(
                    name=name, topic_id=names.topic_ids.get(name, bytes(15) + b"\x7f"), partition_indexes=indexes
                )
                for name, indexes in requested.items()
            ],
        )
        for group in command.text("group").split(",")
    ]
    return offset_fetch.OffsetFetchRequest(groups=groups, require_stable=stable), version


def list_(command: Command, names: Names) -> tuple[Message, int]:
    return list_groups.ListGroupsRequest(
        states_filter=[part for part in command.text("states").split(",") if part],
        types_filter=[part for part in command.text("types").split(",") if part],
    ), command.version(5)


def describe(command: Command, names: Names) -> tuple[Message, int]:
    return describe_groups.DescribeGroupsRequest(groups=groups_of(command, names)), command.version(6)


def delete(command: Command, names: Names) -> tuple[Message, int]:
    return delete_groups.DeleteGroupsRequest(groups_names=groups_of(command, names)), command.version(2)


def delete_offsets(command: Command, names: Names) -> tuple[Message, int]:
    return offset_delete.OffsetDeleteRequest(
        group_id=group_of(command, names),
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=int(index)) for index in rest.split(":")
                ],
            )
            for topic, rest in command.pairs("topics")
        ],
    ), 0


def consumer_beat(command: Command, names: Names) -> tuple[Message, int]:
    """Send a heartbeat; without ``owned``, ``topics`` and so on it says that these have not changed."""
    owned = None
    if "owned" in command.options:
        owned = [
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=names.topic_ids.get(topic, bytes(15) + b"\x7f"),
                partitions=[int(index) for index in rest.split(":") if index],
            )
            for topic, rest in command.pairs("owned")
        ]
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=group_of(command, names),
        member_id=names.member_id(command.get("member", f"${command.client}")),
        member_epoch=int(command.get("epoch", "0")),
        instance_id=command.text("instance") if "instance" in command.options else None,
        rack_id=command.text("rack") if "rack" in command.options else None,
        rebalance_timeout_ms=int(command.get("timeout", "-1")),
        subscribed_topic_names=subscription_of(command),
        subscribed_topic_regex=command.text("regex") if "regex" in command.options else None,
        server_assignor=command.options.get("assignor"),
        topic_partitions=owned,
    ), command.version(1)


def consumer_describe(command: Command, names: Names) -> tuple[Message, int]:
    return consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=groups_of(command, names)), command.version(1)


def create_topic(command: Command, names: Names) -> tuple[Message, int]:
    topics = [
        create_topics.CreatableTopic(name=name, num_partitions=int(count), replication_factor=1)
        for name, count in command.pairs("topics")
    ]
    return create_topics.CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7


def grow_topic(command: Command, names: Names) -> tuple[Message, int]:
    topics = [
        create_partitions.CreatePartitionsTopic(name=name, count=int(count), assignments=None)
        for name, count in command.pairs("topics")
    ]
    return create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=10_000), 3


def drop_topic(command: Command, names: Names) -> tuple[Message, int]:
    topics = [delete_topics.DeleteTopicState(name=name) for name, _ in command.pairs("topics")]
    return delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6


REQUESTS: dict[str, Callable[[Command, Names], tuple[Message, int]]] = {
    "join": join,
    "sync": sync,
    "heartbeat": beat,
    "leave": leave,
    "commit": commit,
    "txn_commit": txn_commit,
    "end_txn": end_txn,
    "fetch": fetch,
    "list": list_,
    "describe": describe,
    "delete": delete,
    "delete_offsets": delete_offsets,
    "consumer_heartbeat": consumer_beat,
    "consumer_describe": consumer_describe,
    "create": create_topic,
    "grow": grow_topic,
    "drop": drop_topic,
}

"""Responses of a group coordinator, as lines of recorded scenarios."""

import struct
from collections.abc import Callable
from typing import Any

from group_requests import Names
from ottla.wire.messages import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_topics,
    delete_groups,
    delete_share_group_offsets,
    describe_groups,
    describe_share_group_offsets,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from shown_errors import code, error_of, message_of
from streams_requests import show_streams_beat, show_streams_describe


def show(client: str, response: Any, names: Names) -> list[str]:
    """Return a response as lines; lists in arbitrary order are sorted."""
    kind = type(response).__name__.removesuffix("Response")
    if kind in ("JoinGroup", "ConsumerGroupHeartbeat") and response.member_id:
        names.learn(client, response.member_id)
    lines = [part for part in SHOW[kind](response, names) if part]
    text = [line.replace(names.group_suffix, "") if names.group_suffix else line for line in lines]
    return [f"{client} <- {kind} {text[0]}", *(f"    {line}" for line in text[1:])]


def show_join(response: join_group.JoinGroupResponse, names: Names) -> list[str]:
    protocol = {None: "null", "": "-"}.get(response.protocol_name, response.protocol_name)
    if response.error_code:
        return [f"{code(response.error_code)} member={names.shown(response.member_id)} protocol={protocol}"]
    skip = " skip_assignment" if response.skip_assignment else ""
    members = sorted(
        f"{names.shown(member.member_id)}"
        + (f" instance={member.group_instance_id}" if member.group_instance_id else "")
        + f" {member.metadata.hex()}"
        for member in response.members
    )
    return [
        f"NONE generation={response.generation_id} type={response.protocol_type} protocol={protocol} "
        f"leader={names.shown(response.leader)} member={names.shown(response.member_id)}{skip}",
        *members,
    ]


def show_sync(response: sync_group.SyncGroupResponse, names: Names) -> list[str]:
    if response.error_code:
        return [code(response.error_code)]
    assigned = shown_assignment(response.assignment)
    return [f"NONE type={response.protocol_type} protocol={response.protocol_name} assignment={assigned}"]


def shown_assignment(data: bytes) -> str:
    """Return the text that a leader sent, or ``v0=t/0/1+u/0`` for an assignment with its version."""
    if data[:1] != b"\0":
        return data.decode() or "-"
    (version,) = struct.unpack_from(">h", data)
    assignment, _ = ConsumerProtocolAssignment.decode_from(data, version, 2)
    topics = sorted(
        "/".join([topic.topic, *map(str, sorted(topic.partitions))]) for topic in assignment.assigned_partitions
    )
    return f"v{version}={'+'.join(topics)}" + ("" if assignment.user_data is None else f";{assignment.user_data!r}")


def show_leave(response: leave_group.LeaveGroupResponse, names: Names) -> list[str]:
    members = [
        f"{names.shown(member.member_id)} instance={member.group_instance_id} {code(member.error_code)}"
        for member in response.members
    ]
    return [code(response.error_code), *members]


def show_commit(response: offset_commit.OffsetCommitResponse, names: Names) -> list[str]:
    partitions = sorted_partitions(response.topics, names, lambda part: code(part.error_code))
    return [f"{len(response.topics)} topics", *partitions]


def show_txn_commit(response: txn_offset_commit.TxnOffsetCommitResponse, names: Names) -> list[str]:
    partitions = sorted_partitions(response.topics, names, lambda part: code(part.error_code))
    return [f"{len(response.topics)} topics", *partitions]


def show_markers(response: write_txn_markers.WriteTxnMarkersResponse, _: Names) -> list[str]:
    (marker,) = response.markers
    return [f"{marker.producer_id} {code(marker.topics[0].partitions[0].error_code)}"]


def show_fetch(response: offset_fetch.OffsetFetchResponse, names: Names) -> list[str]:
    def offset(part: Any) -> str:
        if part.error_code:
            return f"{part.committed_offset} {code(part.error_code)}"
        return f"{part.committed_offset} epoch={part.committed_leader_epoch} metadata={part.metadata!r}"

    if not response.groups:
        return [code(response.error_code), *sorted_partitions(response.topics, names, offset)]
    lines = [f"{len(response.groups)} groups"]
    for group in response.groups:
        lines.append(f"{group.group_id or '-'} {code(group.error_code)}")
        lines += [f"  {line}" for line in sorted_partitions(group.topics, names, offset)]
    return lines


def sorted_partitions(topics: list[Any], names: Names, describe_one: Callable[[Any], str]) -> list[str]:
    def name_of(topic: Any) -> str:
        return topic.name if not hasattr(topic, "topic_id") else names.topic(topic)

    return sorted(
        f"{name_of(topic)}-{part.partition_index} {describe_one(part)}" for topic in topics for part in topic.partitions
    )


def show_list(response: list_groups.ListGroupsResponse, names: Names) -> list[str]:
    return [
        code(response.error_code),
        *sorted(
            f"{group.group_id} type={group.group_type or '-'} protocol={group.protocol_type or '-'} "
            f"state={group.group_state or '-'}"
            for group in response.groups
            if group.group_id.endswith(names.group_suffix)
        ),
    ]


def show_describe(response: describe_groups.DescribeGroupsResponse, names: Names) -> list[str]:
    lines = [f"{len(response.groups)} groups"]
    for group in sorted(response.groups, key=lambda one: one.group_id):
        lines.append(
            f"{group.group_id or '-'} {code(group.error_code)} state={group.group_state or '-'} "
            f"type={group.protocol_type or '-'} protocol={group.protocol_data or '-'}"
            f"{message_of(group)}"
        )
        lines += sorted(
            f"  {names.shown(member.member_id)} instance={member.group_instance_id} client={member.client_id} "
            f"host={member.client_host} metadata={member.member_metadata.hex() or '-'} "
            f"assignment={shown_assignment(member.member_assignment)}"
            for member in group.members
        )
    return lines


def show_delete(response: delete_groups.DeleteGroupsResponse, names: Names) -> list[str]:
    results = sorted(f"{result.group_id or '-'} {code(result.error_code)}" for result in response.results)
    return [f"{len(results)} groups", *results]


def show_delete_offsets(response: offset_delete.OffsetDeleteResponse, names: Names) -> list[str]:
    return [
        code(response.error_code),
        *sorted_partitions(response.topics, names, lambda part: code(part.error_code)),
    ]


def show_member_beat(
    response: consumer_group_heartbeat.ConsumerGroupHeartbeatResponse
    | share_group_heartbeat.ShareGroupHeartbeatResponse,
    names: Names,
) -> list[str]:
    if response.error_code:
        return [error_of(response)]
    assigned = ""
    if response.assignment is not None:
        assigned = f" assignment={partitions_of(response.assignment, names) or '-'}"
    return [f"NONE member={names.shown(response.member_id or '')} epoch={response.member_epoch}{assigned}"]


def partitions_of(assignment: Any, names: Names) -> str:
    """Return ``t:0:1,u:0``."""
    by_id = {topic_id: name for name, topic_id in names.topic_ids.items()}
    return ",".join(
        sorted(
            ":".join([by_id.get(topic.topic_id, "?"), *map(str, sorted(topic.partitions))])
            for topic in assignment.topic_partitions
        )
    )


def show_consumer_describe(response: consumer_group_describe.ConsumerGroupDescribeResponse, names: Names) -> list[str]:
    lines = [f"{len(response.groups)} groups"]
    for group in sorted(response.groups, key=lambda one: one.group_id):
        lines.append(
            f"{group.group_id or '-'} {code(group.error_code)} state={group.group_state or '-'} "
            f"epoch={group.group_epoch} assignment_epoch={group.assignment_epoch} assignor={group.assignor_name or '-'}"
            f"{message_of(group)}"
        )
        lines += sorted(
            f"  {names.shown(member.member_id)} instance={member.instance_id} rack={member.rack_id} "
            f"epoch={member.member_epoch} client={member.client_id} host={member.client_host} "
            f"topics={'+'.join(sorted(member.subscribed_topic_names)) or '-'} regex={member.subscribed_topic_regex!r} "
            f"assignment={partitions_of(member.assignment, names) or '-'} "
            f"target={partitions_of(member.target_assignment, names) or '-'} type={member.member_type}"
            for member in group.members
        )
    return lines


def show_create(response: create_topics.CreateTopicsResponse, names: Names) -> list[str]:
    for topic in response.topics:
        names.topic_ids[topic.name] = topic.topic_id
    return [" ".join(f"{topic.name} {code(topic.error_code)}" for topic in response.topics)]


def show_topics(response: Any, names: Names) -> list[str]:
    topics = response.results if hasattr(response, "results") else response.responses
    return [" ".join(f"{topic.name} {code(topic.error_code)}" for topic in topics)]


def show_share_describe(response: share_group_describe.ShareGroupDescribeResponse, names: Names) -> list[str]:
    lines = [f"{len(response.groups)} groups"]
    for group in sorted(response.groups, key=lambda one: one.group_id):
        lines.append(
            f"{group.group_id or '-'} {code(group.error_code)} state={group.group_state or '-'} "
            f"epoch={group.group_epoch} assignment_epoch={group.assignment_epoch} assignor={group.assignor_name or '-'}"
            f"{message_of(group)}"
        )
        lines += sorted(
            f"  {names.shown(member.member_id)} rack={member.rack_id} epoch={member.member_epoch} "
            f"client={member.client_id} host={member.client_host} "
            f"topics={'+'.join(sorted(member.subscribed_topic_names)) or '-'} "
            f"assignment={partitions_of(member.assignment, names) or '-'}"
            for member in group.members
        )
    return lines


def show_share_offsets(response: describe_share_group_offsets.DescribeShareGroupOffsetsResponse, _: Names) -> list[str]:
    (group,) = response.groups
    lines = [f"{group.group_id or '-'} {error_of(group)}"]
    for topic in sorted(group.topics, key=lambda each: each.topic_name):
        lines += [
            f"  {topic.topic_name} id={topic.topic_id != bytes(16)} {part.partition_index} start={part.start_offset} "
            f"leader_epoch={part.leader_epoch} {error_of(part)}"
            for part in sorted(topic.partitions, key=lambda each: each.partition_index)
        ]
    return lines


def show_share_alter(response: alter_share_group_offsets.AlterShareGroupOffsetsResponse, _: Names) -> list[str]:
    lines = [error_of(response)]
    for topic in sorted(response.responses, key=lambda each: each.topic_name):
        lines += [
            f"  {topic.topic_name} id={topic.topic_id != bytes(16)} {part.partition_index} {error_of(part)}"
            for part in sorted(topic.partitions, key=lambda each: each.partition_index)
        ]
    return lines


def show_share_delete(response: delete_share_group_offsets.DeleteShareGroupOffsetsResponse, _: Names) -> list[str]:
    return [
        error_of(response),
        *(
            f"  {topic.topic_name} id={topic.topic_id != bytes(16)} {error_of(topic)}"
            for topic in sorted(response.responses, key=lambda each: each.topic_name)
        ),
    ]


SHOW: dict[str, Callable[[Any, Names], list[str]]] = {
    "JoinGroup": show_join,
    "SyncGroup": show_sync,
    "Heartbeat": lambda response, names: [code(response.error_code)],
    "LeaveGroup": show_leave,
    "OffsetCommit": show_commit,
    "OffsetFetch": show_fetch,
    "TxnOffsetCommit": show_txn_commit,
    "WriteTxnMarkers": show_markers,
    "ListGroups": show_list,
    "DescribeGroups": show_describe,
    "DeleteGroups": show_delete,
    "OffsetDelete": show_delete_offsets,
    "ConsumerGroupHeartbeat": show_member_beat,
    "ConsumerGroupDescribe": show_consumer_describe,
    "ShareGroupHeartbeat": show_member_beat,
    "ShareGroupDescribe": show_share_describe,
    "DescribeShareGroupOffsets": show_share_offsets,
    "AlterShareGroupOffsets": show_share_alter,
    "DeleteShareGroupOffsets": show_share_delete,
    "StreamsGroupHeartbeat": show_streams_beat,
    "StreamsGroupDescribe": show_streams_describe,
    "CreateTopics": show_create,
    "CreatePartitions": show_topics,
    "DeleteTopics": show_topics,
}

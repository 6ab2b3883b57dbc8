"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete: what versions differ in."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_any_version(group_node: Any, version: int) -> None:
    group_node.stable_group()

    (group,) = group_node.call(ListGroupsRequest(), version).value.groups

    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert group.group_state == ("Stable" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize("version", range(7))
def test_unknown_group_is_dead(group_node: Any, version: int) -> None:
    request = DescribeGroupsRequest(groups=["none"], include_authorized_operations=version >= 3)

    (group,) = group_node.call(request, version).value.groups

    assert group.group_state == "Dead"
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert group.error_message == ("Group none not found." if version >= 6 else None)
    assert group.authorized_operations == (3400 if 3 <= version < 6 else -(2**31))


def test_authorized_operations_are_returned_on_request_only(group_node: Any) -> None:
    assert group_node.describe().authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_members_are_described_in_any_version(group_node: Any, version: int) -> None:
    group_node.stable_group(2)

    (group,) = group_node.call(DescribeGroupsRequest(groups=["g"]), version).value.groups

    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert len(group.members) == 2
    assert all(member.member_metadata and member.member_assignment for member in group.members)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_independently_in_any_version(group_node: Any, version: int) -> None:
    group_node.commit(group="empty")
    group_node.stable_group()

    response = group_node.call(DeleteGroupsRequest(groups_names=["empty", "g", "none", "empty"]), version).value

    assert {result.group_id: ErrorCode(result.error_code) for result in response.results} == {
        "empty": ErrorCode.NONE,
        "g": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert len(response.results) == 3


def delete_offsets(node: Any, topics: dict[str, list[int]], group: str = "g") -> Any:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
            )
            for name, partitions in topics.items()
        ],
    )
    response = node.call(request, 0).value
    return ErrorCode(response.error_code), {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


def test_offsets_are_deleted_partition_by_partition(group_node: Any) -> None:
    group_node.commit("t", 0)
    group_node.commit("t", 1)

    assert delete_offsets(group_node, {"t": [0, 2, 99], "nothere": [0]}) == (
        ErrorCode.NONE,
        {
            ("t", 0): ErrorCode.NONE,
            ("t", 2): ErrorCode.NONE,
            ("t", 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nothere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
    )
    assert group_node.offsets() == {("t", 1): 1}


@pytest.mark.parametrize(
    ("group", "error"),
    [("none", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)],
    ids=["none", "empty"],
)
def test_deleting_offsets_needs_a_group(group_node: Any, group: str, error: ErrorCode) -> None:
    assert delete_offsets(group_node, {"t": [0, 99]}, group) == (error, {})

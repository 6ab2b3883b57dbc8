"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what versions differ in. The rest is in the recorded scenarios."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest


def join_request(**fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"")],
            **fields,
        }
    )


@pytest.mark.parametrize("version", range(10))
def test_join_of_any_version_results_in_a_generation(group_node: Any, version: int) -> None:
    result = group_node.call(join_request(rebalance_timeout_ms=1_000 if version else -1), version)
    if version >= 4:
        assert result.value.error_code == ErrorCode.MEMBER_ID_REQUIRED
        request = join_request(rebalance_timeout_ms=1_000, member_id=result.value.member_id)
        result = group_node.call(request, version)

    group_node.advance(500)

    response = result.value
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.leader == response.member_id == response.members[0].member_id
    assert response.member_id.startswith("client-")


@pytest.mark.parametrize("version", range(10))
def test_rejected_join_of_any_version_has_a_valid_protocol_name(group_node: Any, version: int) -> None:
    response = group_node.call(join_request(member_id="nobody"), version).value

    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.protocol_name == (None if version >= 7 else "")


def test_oldest_join_rebalances_within_its_session_timeout(group_node: Any) -> None:
    first = group_node.call(join_request(session_timeout_ms=3_000), 0)
    group_node.advance(500)
    group_node.sync(first.value.member_id, 1, {})
    second = group_node.call(join_request(session_timeout_ms=3_000), 0)
    for _ in range(2):
        group_node.advance(1_000)
        group_node.heartbeat(first.value.member_id, 1)

    group_node.advance(999)
    assert not second.is_complete
    group_node.advance(1)
    assert second.value.generation_id == 2


def test_client_without_client_id_can_join(group_node: Any) -> None:
    group_node.call(join_request(), 3, client_id=None)

    (member,) = group_node.describe().members
    assert member.member_id.startswith("-")
    assert (member.client_id, member.client_host) == ("", "/127.0.0.1")


@pytest.mark.parametrize("version", range(6))
def test_sync_of_any_version_returns_the_assignment(group_node: Any, version: int) -> None:
    (member,) = group_node.stable_group()
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}

    response = group_node.call(SyncGroupRequest(group_id="g", generation_id=1, member_id=member, **names), version)

    assert response.value.error_code == ErrorCode.NONE
    assert response.value.assignment == member.encode()


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name"), [(None, "range"), ("consumer", None)], ids=["no-type", "no-name"]
)
def test_newest_sync_must_name_the_protocol(
    group_node: Any, protocol_type: str | None, protocol_name: str | None
) -> None:
    (member,) = group_node.stable_group()
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
    )

    assert group_node.call(request, 5).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_of_any_version_succeeds(group_node: Any, version: int) -> None:
    (member,) = group_node.stable_group()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)

    assert group_node.call(request, version).value.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(6))
def test_member_leaves_in_any_version(group_node: Any, version: int) -> None:
    (member,) = group_node.stable_group()
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=member)
    else:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])

    response = group_node.call(request, version).value

    assert response.error_code == ErrorCode.NONE
    assert [result.error_code for result in response.members] == ([] if version < 3 else [ErrorCode.NONE])
    assert group_node.describe().group_state == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_unknown_member_is_reported_in_the_field_of_the_version(group_node: Any, version: int) -> None:
    group_node.stable_group()
    if version < 3:
        response = group_node.call(LeaveGroupRequest(group_id="g", member_id="nobody"), version).value
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="nobody")])
        response = group_node.call(request, version).value
        assert response.error_code == ErrorCode.NONE
        assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_waits_until_the_empty_group_is_stored(group_node: Any) -> None:
    (member,) = group_node.stable_group()
    group_node.log.is_held = True
    left = group_node.leave(member)

    assert not left.is_complete
    group_node.log.commit()
    assert left.value.members[0].error_code == ErrorCode.NONE

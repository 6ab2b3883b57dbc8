"""Repeated, conflicting and malformed requests of members; static members that return."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol


def test_member_that_joins_twice_receives_both_responses(group_node: Any) -> None:
    members = group_node.stable_group(2)
    first = group_node.join(member_id=members[0])
    second = group_node.join(member_id=members[0])

    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    group_node.join(member_id=members[1])
    assert second.value.generation_id == 2


def test_member_that_syncs_twice_receives_both_responses(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.join(member_id=leader)
    group_node.join(member_id=follower)
    first, second = group_node.sync(follower, 2), group_node.sync(follower, 2)

    group_node.sync(leader, 2, {follower: b"F"})

    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.value.assignment == b"F"


def test_waiting_sync_of_a_removed_member_completes(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.join(member_id=leader)
    group_node.join(member_id=follower)
    waiting = group_node.sync(follower, 2)

    group_node.leave(follower)

    assert waiting.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_timeout_of_zero_does_not_block_the_node(group_node: Any) -> None:
    said = {"rebalance_timeout_ms": 0, "session_timeout_ms": 1_000}
    joins = [group_node.join(instance=instance, **said) for instance in ("i1", "i2")]
    group_node.advance(500)
    first, second = (joined.value.member_id for joined in joins)
    group_node.sync(first, 1, {first: b"A", second: b"B"})
    group_node.sync(second, 1)
    group_node.leave(second)

    now_ms = group_node.clock.monotonic_ms()
    assert group_node.groups.next_deadline_ms() == now_ms + 1
    group_node.advance(1_000)

    assert group_node.describe().group_state == "Empty"


def test_duplicate_protocol_of_one_member_counts_once(group_node: Any) -> None:
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"") for name in ("twice", "twice", "range")]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)
    first, second = group_node.call(request, 3), group_node.join()

    group_node.advance(1_000)

    assert first.value.protocol_name == second.value.protocol_name == "range"


@pytest.mark.parametrize(
    ("client_id_bytes", "error"),
    [
        pytest.param(2**15 - 1 - 37, ErrorCode.MEMBER_ID_REQUIRED, id="just-fits"),
        pytest.param(2**15 - 37, ErrorCode.INVALID_REQUEST, id="one-byte-too-long"),
    ],
)
def test_client_id_that_makes_the_member_id_too_long_is_rejected(
    group_node: Any, client_id_bytes: int, error: ErrorCode
) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)

    response = group_node.call(request, 9, client_id="x" * client_id_bytes).value

    assert response.error_code == error


def test_static_member_that_returns_before_its_sync_causes_no_rebalance(group_node: Any) -> None:
    """Its new id is the one that has to sync: that the old one never does is no reason to rebalance."""
    joins = [group_node.join(), group_node.join(instance="i1")]
    group_node.advance(1_000)
    leader, static = (join.value for join in joins)
    group_node.sync(leader.member_id, leader.generation_id, {leader.member_id: b"a", static.member_id: b"b"})

    again = group_node.join(instance="i1").value
    assert group_node.sync(again.member_id, again.generation_id).value.assignment == b"b"
    for _ in range(30):
        group_node.advance(1_000)
        assert group_node.heartbeat(leader.member_id, leader.generation_id) is ErrorCode.NONE
        assert group_node.heartbeat(again.member_id, again.generation_id) is ErrorCode.NONE


def test_returned_static_member_that_never_syncs_is_removed(group_node: Any) -> None:
    joins = [group_node.join(), group_node.join(instance="i1", session_timeout_ms=60_000)]
    group_node.advance(1_000)
    leader = joins[0].value
    group_node.sync(leader.member_id, leader.generation_id, {leader.member_id: b"a"})
    group_node.join(instance="i1", session_timeout_ms=60_000)

    heartbeats = []
    for _ in range(30):
        group_node.advance(1_000)
        heartbeats.append(group_node.heartbeat(leader.member_id, leader.generation_id))

    assert ErrorCode.REBALANCE_IN_PROGRESS in heartbeats

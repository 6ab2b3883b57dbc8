"""Offsets expire when no member has used them for the retention time: both sides of the millisecond."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.groups.config import GroupConfig

RETENTION_MS = 1_000


def config(check_interval_ms: int) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=100,
        initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        offsets_retention_check_interval_ms=check_interval_ms,
    )


@pytest.fixture
def node(new_group_node: Callable[..., Any]) -> Any:
    """A node that checks for expired offsets every millisecond."""
    return new_group_node(config=config(1))


def test_offsets_of_a_simple_consumer_expire_after_their_commit(node: Any) -> None:
    node.commit("t", 0)
    node.advance(10)
    node.commit("t", 1)

    node.advance(RETENTION_MS - 11)
    assert node.offsets() == {("t", 0): 1, ("t", 1): 1}
    node.advance(1)
    assert node.offsets() == {("t", 1): 1}
    node.advance(10)
    assert node.offsets() == {}


def test_group_without_members_and_offsets_is_removed(node: Any) -> None:
    node.commit()

    node.advance(RETENTION_MS - 1)
    assert node.describe().group_state == "Empty"
    node.advance(1)
    assert node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    node.restart()
    assert node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_expire_after_it_became_empty(node: Any) -> None:
    (member,) = node.stable_group(session_timeout_ms=1_000_000)
    node.commit(member_id=member, generation=1)
    node.advance(2 * RETENTION_MS)
    node.leave(member)

    node.advance(RETENTION_MS - 1)
    assert node.offsets() == {("t", 0): 1}
    node.restart()
    assert node.offsets() == {("t", 0): 1}
    node.advance(1)
    assert node.offsets() == {}
    assert node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_only_offsets_of_subscribed_topics_are_kept(node: Any) -> None:
    (member,) = node.stable_group(session_timeout_ms=1_000_000)
    node.commit("t", member_id=member, generation=1)
    node.commit("u", member_id=member, generation=1)

    node.advance(RETENTION_MS - 1)
    assert node.offsets() == {("t", 0): 1, ("u", 0): 1}
    node.advance(1)
    assert node.offsets() == {("t", 0): 1}
    assert node.describe().group_state == "Stable"


def test_nothing_expires_while_a_group_rebalances(node: Any) -> None:
    (member,) = node.stable_group(session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    node.commit("u", member_id=member, generation=1)
    node.join(session_timeout_ms=1_000_000)

    node.advance(RETENTION_MS + 1)

    assert node.describe().group_state == "PreparingRebalance"
    assert node.offsets() == {("u", 0): 1}


def test_offsets_of_groups_of_other_protocol_types_do_not_expire(node: Any) -> None:
    (member,) = node.stable_group(session_timeout_ms=1_000_000, protocol_type="connect", protocols={"default": ["x"]})
    node.commit(member_id=member, generation=1)

    node.advance(RETENTION_MS + 1)

    assert node.offsets() == {("t", 0): 1}


def test_retention_requested_by_the_client_takes_precedence(node: Any) -> None:
    node.commit("t", 0, retention_time_ms=50)
    node.commit("t", 1, retention_time_ms=2 * RETENTION_MS)

    node.advance(49)
    assert ("t", 0) in node.offsets()
    node.advance(1)
    assert node.offsets() == {("t", 1): 1}
    node.advance(RETENTION_MS)
    assert node.offsets() == {("t", 1): 1}
    node.advance(RETENTION_MS)
    assert node.offsets() == {}


def test_rejected_expiry_is_retried(node: Any) -> None:
    node.commit()
    node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(RETENTION_MS + 10)
    assert node.offsets() == {("t", 0): 1}

    node.log.append_error = ErrorCode.NONE
    node.advance(1)

    assert node.offsets() == {}


def test_expired_offsets_are_removed_in_bounded_batches(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(config=config(RETENTION_MS))
    for number in range(1_200):
        node.commit(group=f"g{number}")
    batches_before = sum(map(len, node.log.batches.values()))

    node.advance(RETENTION_MS)

    batches = [batch for written in node.log.batches.values() for batch in written][-batches_before:]
    assert not any(node.offsets(f"g{number}") for number in range(1_200))
    assert max(batch.record_count for batch in batches) <= 500

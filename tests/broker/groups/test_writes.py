"""Writes of the group coordinator: waits for commits, rejected, lost and late writes."""

from typing import Any

import pytest

from group_partition import PARTITION, error_of_commit
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest


def test_responses_wait_until_the_records_are_committed(group_node: Any) -> None:
    (member,) = group_node.stable_group()
    group_node.log.is_held = True
    committed = group_node.commit(offset=5, member_id=member, generation=1)
    fetched = group_node.fetch_all()

    assert not committed.is_complete
    assert not fetched.is_complete

    group_node.log.commit()

    assert error_of_commit(committed.value) is ErrorCode.NONE
    assert fetched.value.groups[0].topics[0].partitions[0].committed_offset == 5


def test_members_receive_their_assignments_when_these_are_committed(group_node: Any) -> None:
    joined = group_node.join()
    group_node.advance(500)
    member = joined.value.member_id
    group_node.log.is_held = True
    synced = group_node.sync(member, 1, {member: b"A"})

    assert not synced.is_complete
    assert group_node.describe().group_state == "CompletingRebalance"

    group_node.log.commit()

    assert synced.value.assignment == b"A"
    assert group_node.describe().group_state == "Stable"


def test_obsolete_assignments_that_commit_late_are_dropped(group_node: Any) -> None:
    joined = group_node.join()
    group_node.advance(500)
    member = joined.value.member_id
    group_node.log.is_held = True
    synced = group_node.sync(member, 1, {member: b"A"})
    newcomer = group_node.join()
    assert synced.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS

    group_node.log.commit()

    assert group_node.describe().group_state == "PreparingRebalance"
    assert group_node.join(member_id=member).value.generation_id == 2
    assert newcomer.is_complete


def test_write_that_commits_after_its_timeout_is_reported_and_still_counts(group_node: Any) -> None:
    group_node.log.is_held = True
    committed = group_node.commit(offset=5)

    group_node.advance(4_999)
    assert not committed.is_complete
    group_node.advance(1)
    assert error_of_commit(committed.value) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    group_node.log.commit()
    assert group_node.offsets() == {("t", 0): 5}


@pytest.mark.parametrize(
    ("rejection", "response_error"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=lambda code: code.name,
)
def test_rejected_write_changes_nothing(group_node: Any, rejection: ErrorCode, response_error: ErrorCode) -> None:
    group_node.commit(offset=1)
    group_node.log.append_error = rejection

    assert error_of_commit(group_node.commit(offset=2).value) is response_error
    (result,) = group_node.call(DeleteGroupsRequest(groups_names=["g"]), 2).value.results
    assert result.error_code == response_error
    joined = group_node.join("new")
    assert joined.value.error_code == response_error

    group_node.log.append_error = ErrorCode.NONE
    assert group_node.offsets() == {("t", 0): 1}
    assert group_node.describe("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_join_again_when_their_assignments_cannot_be_stored(group_node: Any) -> None:
    first, second = group_node.join(), group_node.join()
    group_node.advance(1_000)
    leader, follower = first.value.member_id, second.value.member_id
    waiting = group_node.sync(follower, 1)
    group_node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert group_node.sync(leader, 1, {leader: b"A"}).value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_node.describe().group_state == "PreparingRebalance"


def test_static_member_keeps_its_old_id_when_the_new_one_cannot_be_stored(group_node: Any) -> None:
    joined = group_node.join(instance="i1")
    group_node.advance(500)
    old_id = joined.value.member_id
    group_node.sync(old_id, 1, {old_id: b"A"})
    group_node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert group_node.join(instance="i1").value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_node.heartbeat(old_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("who", ["left", "came-again"])
def test_static_member_that_changed_before_its_id_was_stored_is_not_restored(group_node: Any, who: str) -> None:
    joined = group_node.join(instance="i1")
    group_node.advance(500)
    old_id = joined.value.member_id
    group_node.sync(old_id, 1, {old_id: b"A"})
    group_node.log.is_held = True
    returning = group_node.join(instance="i1")
    (member,) = group_node.describe().members
    assert member.member_id != old_id
    moved_on = group_node.leave(member.member_id) if who == "left" else group_node.join(instance="i1")

    group_node.advance(group_node.config.offset_commit_timeout_ms)

    assert returning.value.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
    assert moved_on.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_node.heartbeat(old_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_lost_write_closes_the_partition_until_it_is_loaded_again(group_node: Any) -> None:
    group_node.commit(offset=1)
    group_node.log.is_held = True
    lost = group_node.commit(offset=2)
    group_node.log.batches[PARTITION].pop()

    group_node.log.commit(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert error_of_commit(lost.value) is ErrorCode.NOT_COORDINATOR
    assert group_node.fetch_all().value.groups[0].error_code == ErrorCode.NOT_COORDINATOR
    group_node.log.is_held = False
    group_node.elect(leader_epoch=1)
    assert group_node.offsets() == {("t", 0): 1}


def test_late_write_does_not_close_the_partition(group_node: Any) -> None:
    group_node.log.is_held = True
    late = group_node.commit(offset=2)
    group_node.log.commit(ErrorCode.REQUEST_TIMED_OUT)

    assert error_of_commit(late.value) is not ErrorCode.NONE
    assert group_node.offsets() == {("t", 0): 2}


def test_leader_that_lost_a_write_reloads_its_partition(group_node: Any) -> None:
    group_node.commit(offset=1)
    group_node.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    group_node.commit(offset=2)
    group_node.log.append_error = ErrorCode.NONE
    assert group_node.groups.next_deadline_ms() is not None
    group_node.advance(1_000)

    assert group_node.offsets() == {("t", 0): 1}

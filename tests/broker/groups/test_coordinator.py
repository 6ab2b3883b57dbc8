"""The coordinator's lifecycle: elections, loading, restarts, resignation, deleted topics."""

from collections.abc import Callable
from typing import Any

import pytest

from group_partition import PARTITION, encode_batch, error_of_commit, load_log
from ottla.coordinator.loader import LOADED_RECORDS_PER_SLICE
from ottla.coordinator.partitioner import partition_for_key
from ottla.errors import ErrorCode
from ottla.groups.config import GroupConfig
from ottla.groups.consumer import records as consumer
from ottla.groups.log import GroupRecord, offset_commit_record
from ottla.groups.share import records as share
from ottla.groups.streams import records as streams
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.group_log import OffsetCommitValue
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.records import parse_batch


def test_offsets_and_members_survive_a_restart(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.commit(offset=5, member_id=leader, generation=1, metadata="x")
    group_node.commit(offset=7, member_id=leader, generation=1, metadata="y")
    before = group_node.describe()

    group_node.restart()

    assert group_node.describe() == before
    assert before.group_state == "Stable"
    assert group_node.offsets() == {("t", 0): 7}
    assert group_node.heartbeat(follower, 1) is ErrorCode.NONE
    assert group_node.sync(follower, 1).value.assignment == follower.encode()


def test_generation_without_assignments_is_lost_in_a_restart(group_node: Any) -> None:
    (member,) = group_node.stable_group()
    joined = group_node.join(member_id=member)
    assert joined.value.generation_id == 2

    group_node.restart()

    assert group_node.describe().group_state == "Stable"
    assert group_node.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert group_node.heartbeat(member, 1) is ErrorCode.NONE


def test_members_that_do_not_return_after_a_restart_expire(group_node: Any) -> None:
    group_node.stable_group(2, session_timeout_ms=5_000)
    group_node.restart()

    group_node.advance(4_999)
    assert group_node.describe().group_state == "Stable"
    group_node.advance(1)

    assert group_node.describe().group_state == "Empty"


def test_deleted_groups_and_offsets_stay_deleted_after_a_restart(group_node: Any) -> None:
    group_node.commit(offset=5)
    group_node.commit(offset=5, group="other")
    (result,) = group_node.call(DeleteGroupsRequest(groups_names=["g"]), 2).value.results
    assert result.error_code == ErrorCode.NONE

    group_node.restart()

    assert group_node.offsets() == {}
    assert group_node.offsets("other") == {("t", 0): 5}
    assert [group.group_id for group in group_node.call(ListGroupsRequest(), 5).value.groups] == ["other"]


@pytest.mark.parametrize(
    ("group_type", "record"),
    [
        ("consumer", consumer.epoch_record("g", 5, 0)),
        ("share", share.epoch_record("g", 5, 0)),
        (
            "streams",
            streams.epoch_record("g", 5, metadata_hash=0, validated_topology_epoch=-1, assignment_configs={}),
        ),
    ],
)
def test_first_record_of_another_protocol_replaces_a_group_without_offsets(
    group_node: Any, group_type: str, record: GroupRecord
) -> None:
    """The group's own tombstone is not in the log: a group that only commits offsets has no record to remove."""
    records = [
        offset_commit_record("g", "t", 0, OffsetCommitValue(offset=1)),
        offset_commit_record("g", "t", 0, None),
        record,
    ]
    load_log(group_node, [encode_batch(records, timestamp_ms=0)])

    listed = group_node.call(ListGroupsRequest(), 5).value.groups
    assert [(each.group_id, each.group_type) for each in listed] == [("g", group_type)]


def test_long_log_is_loaded_in_slices(group_node: Any) -> None:
    records = [offset_commit_record("g", "t", n, OffsetCommitValue(offset=n)) for n in range(LOADED_RECORDS_PER_SLICE)]
    group_node.log.batches[PARTITION] = [parse_batch(bytearray(encode_batch(records, timestamp_ms=0)))]
    now_ms = group_node.clock.monotonic_ms()
    groups = group_node.groups = group_node.new_coordinator()

    groups.on_elected(PARTITION, 0, iter(group_node.log.batches[PARTITION]))

    assert groups.next_deadline_ms() == now_ms
    assert error_of_commit(group_node.commit().value) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group_node.join().value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group_node.heartbeat("anybody", 1) is ErrorCode.NONE
    assert group_node.fetch_all().value.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group_node.describe().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group_node.call(ListGroupsRequest(), 5).value.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.tick(now_ms)
    assert len(group_node.offsets()) == LOADED_RECORDS_PER_SLICE


def test_partition_on_a_failing_disk_is_not_served(group_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    def batches() -> Any:
        yield parse_batch(
            bytearray(encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue())], timestamp_ms=0))
        )
        raise OSError(5, "Input/output error")

    groups = group_node.groups = group_node.new_coordinator()
    groups.on_elected(PARTITION, 0, batches())

    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR
    assert "Input/output error" in caplog.text


def test_other_partitions_are_served_while_one_cannot_be_read(group_node: Any) -> None:
    def batches() -> Any:
        raise OSError(5, "Input/output error")
        yield

    group_node.groups.on_resigned(PARTITION, 1)
    group_node.groups.on_elected(PARTITION, 2, batches())
    other = next(name for name in "abc" if partition_for_key(name, 4) != PARTITION)

    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR
    assert error_of_commit(group_node.commit(group=other).value) is ErrorCode.NONE


def test_partition_that_is_not_led_here_is_not_served(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(topics={"t": 1})

    assert node.groups.partition_for("g") is None
    assert node.join().value.error_code == ErrorCode.NOT_COORDINATOR
    assert node.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR


def test_resignation_completes_all_waiting_requests(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.join(member_id=leader)
    group_node.join(member_id=follower)
    waiting_sync = group_node.sync(follower, 2)
    waiting_join = group_node.join("other" if partition_for_key("other", 4) == PARTITION else "g")
    group_node.log.is_held = True
    waiting_commit = group_node.commit(group="g", member_id=leader, generation=2)

    group_node.groups.on_resigned(PARTITION, 1)

    assert waiting_sync.is_complete
    assert waiting_join.value.error_code == ErrorCode.NOT_COORDINATOR
    assert waiting_commit.is_complete
    assert group_node.heartbeat(leader, 2) is ErrorCode.NOT_COORDINATOR
    group_node.advance(100_000)


def test_late_resignation_is_ignored_but_a_removed_replica_resigns(group_node: Any) -> None:
    group_node.groups.on_resigned(PARTITION, 0)
    group_node.elect(leader_epoch=5)

    group_node.groups.on_resigned(PARTITION, 4)
    assert error_of_commit(group_node.commit().value) is ErrorCode.NONE
    group_node.groups.on_resigned(PARTITION)
    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR


def test_leader_that_is_elected_again_continues(group_node: Any) -> None:
    waiting = group_node.join()

    group_node.groups.on_elected(PARTITION, 9, iter([]))
    group_node.advance(500)

    assert waiting.value.generation_id == 1


def test_offsets_of_deleted_topics_are_removed(group_node: Any) -> None:
    group_node.commit("t", 0)
    group_node.commit("t", 1)
    group_node.commit("u", 0)

    group_node.delete_topic("t")

    assert group_node.offsets() == {("u", 0): 1}
    group_node.restart()
    assert group_node.offsets() == {("u", 0): 1}


def test_group_above_the_maximum_size_rebalances_when_it_is_loaded(
    new_group_node: Callable[..., Any],
) -> None:
    node = new_group_node()
    members = node.stable_group(3)
    node.config = GroupConfig(min_session_timeout_ms=100, max_size=2)
    node.restart()

    assert node.describe().group_state == "PreparingRebalance"
    first, second = node.join(member_id=members[1]), node.join(member_id=members[2])
    assert node.join(member_id=members[0]).value.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    node.advance(20_000)
    assert first.value.generation_id == second.value.generation_id == 2

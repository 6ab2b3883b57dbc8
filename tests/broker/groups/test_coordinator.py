"""The coordinator's life: elections, loading, restarts, writes that wait or fail, topics that go."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinator.loader import LOADED_RECORDS_PER_SLICE
from ottla.coordinator.partitioner import partition_for_key
from ottla.errors import ErrorCode
from ottla.groups.config import GroupConfig
from ottla.groups.log import GROUP_RECORD_SERDE, decode, offset_commit_record
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.group_log import GroupMetadataValue, OffsetCommitValue
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.records import ControlRecordType, build_batch, build_end_transaction_marker, parse_batch, read_records

PARTITION = partition_for_key("g", 4)
encode_batch = GROUP_RECORD_SERDE.encode_batch


def error_of_commit(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def load(node: Any, batches: list[bytes]) -> None:
    """Elect a fresh coordinator on ``batches`` of the group's partition."""
    node.log.batches[PARTITION] = [parse_batch(bytearray(batch)) for batch in batches]
    node.restart()


def test_offsets_and_members_are_there_after_a_restart(group_node: Any) -> None:
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


def test_a_generation_that_was_not_assigned_is_lost_in_a_restart(group_node: Any) -> None:
    (member,) = group_node.stable_group()
    joined = group_node.join(member_id=member)
    assert joined.value.generation_id == 2

    group_node.restart()

    assert group_node.describe().group_state == "Stable"
    assert group_node.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert group_node.heartbeat(member, 1) is ErrorCode.NONE


def test_members_that_do_not_come_back_after_a_restart_expire(group_node: Any) -> None:
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


def test_a_long_log_is_loaded_piece_by_piece(group_node: Any) -> None:
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


def test_a_partition_that_cannot_be_read_is_not_served(group_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    batch = encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue())], timestamp_ms=0)
    (record,) = read_records(parse_batch(batch), size_bytes_max=1000)
    load(group_node, [build_batch([record._replace(value=b"\0\x63")])])

    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR
    assert f"__consumer_offsets-{PARTITION} cannot be loaded" in caplog.text
    assert "version 99" in caplog.text


def test_a_partition_whose_disk_refuses_is_not_served(group_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    def batches() -> Any:
        yield parse_batch(
            bytearray(encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue())], timestamp_ms=0))
        )
        raise OSError(5, "Input/output error")

    groups = group_node.groups = group_node.new_coordinator()
    groups.on_elected(PARTITION, 0, batches())

    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR
    assert "Input/output error" in caplog.text


def test_the_other_partitions_are_served_though_one_cannot_be_read(group_node: Any) -> None:
    load(
        group_node,
        [
            build_batch(
                [
                    read_records(
                        parse_batch(
                            encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue())], timestamp_ms=0)
                        ),
                        size_bytes_max=1000,
                    )[0]._replace(key=b"")
                ]
            )
        ],
    )
    other = next(name for name in "abc" if partition_for_key(name, 4) != PARTITION)

    assert error_of_commit(group_node.commit(group=other).value) is ErrorCode.NONE


def test_a_partition_that_nobody_here_leads_is_not_served(new_group_node: Callable[..., Any]) -> None:
    node = new_group_node(topics={"t": 1})

    assert node.groups.partition_for("g") is None
    assert node.join().value.error_code == ErrorCode.NOT_COORDINATOR
    assert node.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR


def test_resigning_answers_everybody_who_waits(group_node: Any) -> None:
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


def test_a_late_resignation_is_ignored_and_a_replica_that_is_gone_is_not(group_node: Any) -> None:
    group_node.groups.on_resigned(PARTITION, 0)
    group_node.elect(leader_epoch=5)

    group_node.groups.on_resigned(PARTITION, 4)
    assert error_of_commit(group_node.commit().value) is ErrorCode.NONE
    group_node.groups.on_resigned(PARTITION)
    assert error_of_commit(group_node.commit().value) is ErrorCode.NOT_COORDINATOR


def test_a_leader_that_is_elected_again_goes_on(group_node: Any) -> None:
    waiting = group_node.join()

    group_node.groups.on_elected(PARTITION, 9, iter([]))
    group_node.advance(500)

    assert waiting.value.generation_id == 1


def test_answers_wait_until_the_records_are_committed(group_node: Any) -> None:
    (member,) = group_node.stable_group()
    group_node.log.is_held = True
    committed = group_node.commit(offset=5, member_id=member, generation=1)
    fetched = group_node.fetch_all()

    assert not committed.is_complete
    assert not fetched.is_complete

    group_node.log.commit()

    assert error_of_commit(committed.value) is ErrorCode.NONE
    assert fetched.value.groups[0].topics[0].partitions[0].committed_offset == 5


def test_members_get_their_assignments_when_those_are_committed(group_node: Any) -> None:
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


def test_assignments_of_the_past_are_dropped_when_they_commit_late(group_node: Any) -> None:
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


def test_a_write_that_is_not_committed_in_time_is_reported_and_still_counts_when_it_is(group_node: Any) -> None:
    group_node.log.is_held = True
    committed = group_node.commit(offset=5)

    group_node.advance(4_999)
    assert not committed.is_complete
    group_node.advance(1)
    assert error_of_commit(committed.value) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    group_node.log.commit()
    assert group_node.offsets() == {("t", 0): 5}


@pytest.mark.parametrize(
    ("refused_with", "told"),
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
def test_a_refused_write_changes_nothing(group_node: Any, refused_with: ErrorCode, told: ErrorCode) -> None:
    group_node.commit(offset=1)
    group_node.log.refuses_with = refused_with

    assert error_of_commit(group_node.commit(offset=2).value) is told
    (result,) = group_node.call(DeleteGroupsRequest(groups_names=["g"]), 2).value.results
    assert result.error_code == told
    joined = group_node.join("new")
    assert joined.value.error_code == told

    group_node.log.refuses_with = ErrorCode.NONE
    assert group_node.offsets() == {("t", 0): 1}
    assert group_node.describe("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_join_again_when_their_assignments_cannot_be_stored(group_node: Any) -> None:
    first, second = group_node.join(), group_node.join()
    group_node.advance(1_000)
    leader, follower = first.value.member_id, second.value.member_id
    waiting = group_node.sync(follower, 1)
    group_node.log.refuses_with = ErrorCode.NOT_ENOUGH_REPLICAS

    assert group_node.sync(leader, 1, {leader: b"A"}).value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_node.describe().group_state == "PreparingRebalance"


def test_a_static_member_keeps_its_old_id_when_the_new_one_cannot_be_stored(group_node: Any) -> None:
    joined = group_node.join(instance="i1")
    group_node.advance(500)
    old_id = joined.value.member_id
    group_node.sync(old_id, 1, {old_id: b"A"})
    group_node.log.refuses_with = ErrorCode.NOT_ENOUGH_REPLICAS

    assert group_node.join(instance="i1").value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_node.heartbeat(old_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("who", ["left", "came-again"])
def test_a_static_member_that_moved_on_before_its_id_was_stored_is_not_taken_back(group_node: Any, who: str) -> None:
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


def test_a_lost_write_stops_the_partition_until_it_is_loaded_again(group_node: Any) -> None:
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


def test_a_write_that_is_late_stops_nothing(group_node: Any) -> None:
    group_node.log.is_held = True
    late = group_node.commit(offset=2)
    group_node.log.commit(ErrorCode.REQUEST_TIMED_OUT)

    assert error_of_commit(late.value) is not ErrorCode.NONE
    assert group_node.offsets() == {("t", 0): 2}


def test_a_leader_that_lost_a_write_loads_its_partition_anew(group_node: Any) -> None:
    group_node.commit(offset=1)
    group_node.log.refuses_with = ErrorCode.NOT_ENOUGH_REPLICAS
    group_node.commit(offset=2)
    group_node.log.refuses_with = ErrorCode.NONE
    assert group_node.groups.next_deadline_ms() is not None
    group_node.advance(1_000)

    assert group_node.offsets() == {("t", 0): 1}


def test_offsets_of_deleted_topics_are_forgotten(group_node: Any) -> None:
    group_node.commit("t", 0)
    group_node.commit("t", 1)
    group_node.commit("u", 0)

    group_node.groups.on_topics_deleted(["t", "unknown"])

    assert group_node.offsets() == {("u", 0): 1}
    group_node.restart()
    assert group_node.offsets() == {("u", 0): 1}


def transactional(partition: int, offset: int) -> bytes:
    """A batch as TxnOffsetCommit writes it."""
    batch = encode_batch([offset_commit_record("g", "t", partition, OffsetCommitValue(offset=offset))], timestamp_ms=0)
    return build_batch(
        read_records(parse_batch(batch), size_bytes_max=1000),
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(kind: ControlRecordType) -> bytes:
    return build_end_transaction_marker(kind, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)


def test_offsets_of_a_transaction_count_when_it_has_committed(group_node: Any) -> None:
    load(group_node, [transactional(0, 5), marker(ControlRecordType.COMMIT), transactional(1, 6)])

    assert group_node.offsets() == {("t", 0): 5}


def test_offsets_of_an_aborted_transaction_never_count(group_node: Any) -> None:
    load(group_node, [transactional(0, 5), marker(ControlRecordType.ABORT), marker(ControlRecordType.COMMIT)])

    assert group_node.offsets() == {}


def test_offsets_that_a_transaction_may_change_are_unstable(group_node: Any) -> None:
    plain = encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue(offset=1))], timestamp_ms=0)
    load(group_node, [plain, transactional(0, 5)])

    (stable,) = group_node.fetch_all(require_stable=True).value.groups[0].topics[0].partitions
    assert stable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert stable.committed_offset == -1
    assert group_node.offsets() == {("t", 0): 1}


def test_a_group_that_is_larger_than_allowed_by_now_rebalances_when_it_is_loaded(
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


def test_a_member_that_joins_twice_has_both_requests_answered(group_node: Any) -> None:
    members = group_node.stable_group(2)
    first = group_node.join(member_id=members[0])
    second = group_node.join(member_id=members[0])

    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    group_node.join(member_id=members[1])
    assert second.value.generation_id == 2


def test_a_member_that_syncs_twice_has_both_requests_answered(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.join(member_id=leader)
    group_node.join(member_id=follower)
    first, second = group_node.sync(follower, 2), group_node.sync(follower, 2)

    group_node.sync(leader, 2, {follower: b"F"})

    assert first.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.value.assignment == b"F"


def test_a_member_that_is_removed_while_it_waits_for_its_assignment_is_told(group_node: Any) -> None:
    leader, follower = group_node.stable_group(2)
    group_node.join(member_id=leader)
    group_node.join(member_id=follower)
    waiting = group_node.sync(follower, 2)

    group_node.leave(follower)

    assert waiting.value.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_record_with_a_member_twice_is_refused(group_node: Any) -> None:
    group_node.stable_group()
    *_, record = group_node.log.records()
    stored = decode(record.key, record.value)
    assert stored is not None
    assert isinstance(stored.value, GroupMetadataValue)
    stored.value.members *= 2
    load(group_node, [encode_batch([stored], timestamp_ms=0)])

    assert group_node.join().value.error_code == ErrorCode.NOT_COORDINATOR


def test_a_rebalance_timeout_of_zero_does_not_keep_the_node_busy(group_node: Any) -> None:
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


def test_a_protocol_that_one_member_names_twice_still_needs_the_others(group_node: Any) -> None:
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
def test_a_client_id_may_not_make_the_member_id_longer_than_a_string(
    group_node: Any, client_id_bytes: int, error: ErrorCode
) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols)

    response = group_node.call(request, 9, client_id="x" * client_id_bytes).value

    assert response.error_code == error


def test_a_static_member_that_comes_back_before_its_sync_does_not_upset_the_group(group_node: Any) -> None:
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


def test_a_static_member_that_comes_back_and_never_syncs_is_dropped_like_any_other(group_node: Any) -> None:
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

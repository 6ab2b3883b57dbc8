"""Offsets that a transaction commits (KIP-447): pending, committed, aborted."""

from typing import Any

import pytest

from group_partition import PARTITION, encode_batch, load_log
from ottla.coordinator.transactions import TransactionEnd
from ottla.errors import ErrorCode
from ottla.groups.log import offset_commit_record
from ottla.wire.messages.group_log import OffsetCommitValue
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.wire.records import ControlRecordType, build_batch, build_end_transaction_marker, parse_batch, read_records


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


def test_offsets_of_a_transaction_are_visible_after_its_commit(group_node: Any) -> None:
    load_log(group_node, [transactional(0, 5), marker(ControlRecordType.COMMIT), transactional(1, 6)])

    assert group_node.offsets() == {("t", 0): 5}


def test_offsets_of_an_aborted_transaction_are_dropped(group_node: Any) -> None:
    load_log(group_node, [transactional(0, 5), marker(ControlRecordType.ABORT), marker(ControlRecordType.COMMIT)])

    assert group_node.offsets() == {}


def test_offsets_that_a_transaction_may_change_are_unstable(group_node: Any) -> None:
    plain = encode_batch([offset_commit_record("g", "t", 0, OffsetCommitValue(offset=1))], timestamp_ms=0)
    load_log(group_node, [plain, transactional(0, 5)])

    (stable,) = group_node.fetch_all(require_stable=True).value.groups[0].topics[0].partitions
    assert stable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert stable.committed_offset == -1
    assert group_node.offsets() == {("t", 0): 1}


def commit_in_transaction(node: Any, offset: int, *, group: str = "g", producer_id: int = 9) -> None:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id=group,
        producer_id=producer_id,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    response = node.call(request, 5).value
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def end(node: Any, *, is_commit: bool, producer_id: int = 9) -> None:
    ended = TransactionEnd(producer_id, 1, coordinator_epoch=0, is_commit=is_commit, transaction_version=2)
    assert node.groups.end_transaction(PARTITION, ended).value is ErrorCode.NONE


def is_unstable(node: Any) -> bool:
    partitions = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=partitions)], require_stable=True)
    (found,) = node.call(request, 8).value.groups[0].topics[0].partitions
    return bool(found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT)


@pytest.mark.parametrize(("is_commit", "offsets"), [(True, {("t", 0): 5}), (False, {})])
def test_restart_before_the_end_keeps_the_offsets_pending(
    group_node: Any, is_commit: bool, offsets: dict[tuple[str, int], int]
) -> None:
    commit_in_transaction(group_node, 5)

    group_node.restart()

    assert is_unstable(group_node)
    assert group_node.offsets() == {}
    end(group_node, is_commit=is_commit)
    for _ in range(2):
        assert not is_unstable(group_node)
        assert group_node.offsets() == offsets
        group_node.restart()


def test_newest_record_counts_after_a_restart(group_node: Any) -> None:
    commit_in_transaction(group_node, 5)
    commit_in_transaction(group_node, 6, producer_id=10)
    end(group_node, is_commit=True, producer_id=10)
    group_node.restart()

    end(group_node, is_commit=True)

    assert group_node.offsets() == {("t", 0): 6}
    group_node.restart()
    assert group_node.offsets() == {("t", 0): 6}


def test_offset_is_visible_once_the_marker_is_committed(group_node: Any) -> None:
    commit_in_transaction(group_node, 5)
    group_node.log.is_held = True
    ended = TransactionEnd(9, 1, coordinator_epoch=0, is_commit=True, transaction_version=2)
    group_node.groups.end_transaction(PARTITION, ended)
    fetched = group_node.fetch_all()

    assert not fetched.is_complete
    group_node.log.commit()
    assert fetched.value.groups[0].topics[0].partitions[0].committed_offset == 5


def test_neither_group_nor_offset_with_an_open_transaction_expires(group_node: Any) -> None:
    group_node.commit(offset=1)
    commit_in_transaction(group_node, 5)

    group_node.advance(group_node.config.offsets_retention_ms + group_node.config.offsets_retention_check_interval_ms)

    assert group_node.offsets() == {("t", 0): 1}
    end(group_node, is_commit=True)
    assert group_node.offsets() == {("t", 0): 5}
    group_node.advance(group_node.config.offsets_retention_check_interval_ms)
    assert group_node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_group_that_has_only_aborted_offsets_is_removed_by_the_next_check(group_node: Any) -> None:
    commit_in_transaction(group_node, 5)
    group_node.advance(group_node.config.offsets_retention_check_interval_ms)
    assert group_node.describe().error_code == ErrorCode.NONE
    end(group_node, is_commit=False)

    group_node.advance(group_node.config.offsets_retention_check_interval_ms)

    assert group_node.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_deleted_topic_leave_open_transactions(group_node: Any) -> None:
    commit_in_transaction(group_node, 5)

    group_node.delete_topic("t")

    assert not is_unstable(group_node)
    end(group_node, is_commit=True)
    assert group_node.offsets() == {}

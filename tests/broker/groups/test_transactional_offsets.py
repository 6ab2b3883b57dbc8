"""Offsets that a transaction commits (KIP-447): pending, committed, aborted."""

from typing import Any

from group_partition import encode_batch, load_log
from ottla.errors import ErrorCode
from ottla.groups.log import offset_commit_record
from ottla.wire.messages.group_log import OffsetCommitValue
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

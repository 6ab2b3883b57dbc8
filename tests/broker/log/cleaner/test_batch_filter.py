"""What is left of a batch after compaction: records, horizons, empty batches, markers, aborted data."""

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.errors import CorruptRecordError
from ottla.log.cleaner.batch_filter import LastRecord, Retention, filter_batch
from ottla.log.cleaner.cleaned_transactions import CleanedTransactions
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.transaction_index import AbortedTransaction
from ottla.wire.records import (
    Compression,
    ControlRecordType,
    Record,
    RecordBatch,
    TimestampType,
    build_batch,
    build_empty_batch,
    build_end_transaction_marker,
    parse_batch,
    read_records,
)

NOW_MS = 1_700_000_000_000
RETENTION_MS = 1_000
PRODUCER = 7
KEEP = Retention({}, 1000, NOW_MS, RETENTION_MS)


def record(offset: int, key: bytes | None, value: bytes | None = b"v") -> Record:
    return Record(offset, NOW_MS + offset, key, value)


def batch_of(records: Sequence[Record], **options: Any) -> RecordBatch:
    return parse_batch(build_batch(records, base_offset=records[0].offset, leader_epoch=3, **options))


def marker(offset: int, *, is_aborted: bool = False, **options: Any) -> RecordBatch:
    kind = ControlRecordType.ABORT if is_aborted else ControlRecordType.COMMIT
    return parse_batch(
        build_end_transaction_marker(
            kind, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=1, timestamp_ms=NOW_MS, base_offset=offset
        )
    )


def offsets_of(*entries: tuple[bytes, int], latest: int = 999) -> OffsetMap:
    offsets = OffsetMap(100)
    assert offsets.put_all([key for key, _ in entries], [offset for _, offset in entries])
    offsets.advance(latest)
    return offsets


def clean(batch: RecordBatch, offsets: OffsetMap, keep: Retention = KEEP, aborted: Any = ()) -> RecordBatch | None:
    left = filter_batch(batch, offsets, CleanedTransactions(aborted), keep)
    if not left:
        return None
    cleaned = parse_batch(left)
    cleaned.check_crc()
    return cleaned


def contents(batch: RecordBatch | None) -> list[Record]:
    return [] if batch is None else read_records(batch, size_bytes_max=1 << 20)


@pytest.mark.parametrize("codec", list(Compression))
def test_superseded_records_go_and_the_others_keep_offsets_and_timestamps(codec: Compression) -> None:
    records = [record(10, b"a"), record(11, b"b"), record(12, b"c")]
    batch = batch_of(records, compression=codec, producer_id=5, producer_epoch=1, base_sequence=40)

    left = clean(batch, offsets_of((b"a", 50), (b"b", 11), (b"c", 60)))

    assert left is not None
    assert contents(left) == [records[1]]
    assert (left.base_offset, left.last_offset, left.leader_epoch) == (10, 12, 3)
    assert (left.producer_id, left.producer_epoch, left.base_sequence, left.last_sequence) == (5, 1, 40, 42)
    assert (left.compression, left.record_count) == (codec, 1)
    assert left.max_timestamp_ms == NOW_MS + 11


def test_batch_that_keeps_all_records_keeps_its_bytes() -> None:
    batch = batch_of([record(10, b"a"), record(11, b"b")], compression=Compression.GZIP)

    left = clean(batch, offsets_of((b"a", 10)))

    assert left is not None
    assert bytes(left.data) == bytes(batch.data)


def test_append_time_is_kept() -> None:
    batch = batch_of(
        [record(1, b"a"), record(2, b"b")], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS
    )

    left = clean(batch, offsets_of((b"a", 9)))

    assert left is not None
    assert (left.timestamp_type, left.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, NOW_MS)
    assert [each.timestamp_ms for each in contents(left)] == [NOW_MS]


def test_marks_of_the_dirty_section_decide_as_the_last_offsets_do() -> None:
    records = [record(10, b"a"), record(11, b"b", None), record(12, None), record(13, b"c"), record(14, b"a")]
    batch = batch_of(records)
    offsets = OffsetMap(100, first_offset=10, offset_count=6)
    offsets.put_all([b"a", b"b", b"c", b"a", b"c"], [10, 11, 13, 14, 15])

    assert [each.offset for each in contents(clean(batch, offsets))] == [11, 14]


def test_records_above_a_map_with_marks_stay() -> None:
    records = [record(10, b"a"), record(11, b"a"), record(12, None)]
    offsets = OffsetMap(100, first_offset=10, offset_count=6)
    offsets.put_all([b"a"], [10])

    assert contents(clean(batch_of(records), offsets)) == records


def test_batch_of_superseded_records_goes_and_leaves_its_producers_sequence() -> None:
    batch = batch_of([record(10, b"a"), record(11, b"a")], producer_id=5, producer_epoch=1, base_sequence=40)
    offsets = OffsetMap(100, first_offset=10, offset_count=3)
    offsets.put_all([b"a", b"a", b"a"], [10, 11, 12])

    assert clean(batch, offsets) is None
    left = clean(batch, offsets, KEEP._replace(last_records={5: LastRecord(11, 1)}))
    assert left is not None
    assert (left.record_count, left.last_sequence) == (0, 41)


def test_record_without_key_goes() -> None:
    assert clean(batch_of([record(1, None)]), offsets_of()) is None


def test_records_above_the_map_stay() -> None:
    batch = batch_of([record(1, b"a"), record(2, None), record(3, b"a")])

    assert contents(clean(batch, offsets_of((b"a", 1), latest=1))) == contents(batch)


def test_tombstone_gets_its_horizon_in_the_first_pass_and_goes_in_the_second_after_it() -> None:
    batch = batch_of([record(1, b"a", None), record(2, b"b")])
    offsets = offsets_of((b"a", 1), (b"b", 2))

    first = clean(batch, offsets)
    assert first is not None
    assert first.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert contents(first) == contents(batch)
    early = clean(first, offsets, KEEP._replace(now_ms=NOW_MS + RETENTION_MS - 1))
    assert early is not None
    assert bytes(early.data) == bytes(first.data)
    second = clean(early, offsets, KEEP._replace(now_ms=NOW_MS + RETENTION_MS))

    assert contents(second) == [record(2, b"b")]
    assert second is not None
    assert second.delete_horizon_ms == NOW_MS + RETENTION_MS


def test_superseded_tombstone_goes_at_once() -> None:
    assert clean(batch_of([record(1, b"a", None)]), offsets_of((b"a", 9))) is None


@pytest.mark.parametrize(
    ("last_record", "uncleanable", "stays"),
    [
        (LastRecord(12, 1), 1000, True),
        (LastRecord(11, 1), 1000, False),
        (LastRecord(90, 1), 1000, False),
        (LastRecord(-1, 1), 1000, False),
        (None, 1000, False),
        (None, 13, True),
        (LastRecord(90, 1), 13, True),
    ],
)
def test_batch_without_records_stays_for_its_producer_or_as_the_last_one(
    last_record: LastRecord | None, uncleanable: int, stays: bool
) -> None:
    batch = batch_of([record(10, b"a"), record(12, b"a")], producer_id=PRODUCER, producer_epoch=1, base_sequence=5)
    last_records = {} if last_record is None else {PRODUCER: last_record}

    left = clean(
        batch, offsets_of((b"a", 99)), KEEP._replace(last_records=last_records, uncleanable_offset=uncleanable)
    )

    assert (left is not None) == stays
    if left is not None:
        assert (left.record_count, left.size_bytes, left.base_offset, left.last_offset) == (0, 61, 10, 12)
        assert (left.producer_id, left.producer_epoch, left.base_sequence) == (PRODUCER, 1, 5)
        assert left.leader_epoch == 3


def test_empty_batch_goes_once_its_producer_has_a_later_one() -> None:
    batch = parse_batch(build_empty_batch(batch_of([record(10, b"a")], producer_id=PRODUCER, producer_epoch=1)))

    assert clean(batch, offsets_of(), KEEP._replace(last_records={PRODUCER: LastRecord(10, 1)})) is not None
    assert clean(batch, offsets_of(), KEEP._replace(last_records={PRODUCER: LastRecord(20, 1)})) is None


# --- transactions


def data(offset: int, key: bytes) -> RecordBatch:
    return batch_of(
        [record(offset, key)], producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True
    )


def clean_all(batches: Sequence[RecordBatch], offsets: OffsetMap, keep: Retention, aborted: Any = ()) -> list[Any]:
    transactions = CleanedTransactions(aborted)
    left = [filter_batch(batch, offsets, transactions, keep) for batch in batches]
    return [parse_batch(each) if each else None for each in left]


def test_commit_marker_stays_while_a_batch_of_its_transaction_does() -> None:
    batches = [data(1, b"a"), marker(2)]

    kept = clean_all(batches, offsets_of((b"a", 1)), KEEP)

    assert [bytes(left.data) for left in kept] == [bytes(batch.data) for batch in batches]


def test_commit_marker_of_an_empty_transaction_goes_in_two_passes() -> None:
    offsets = offsets_of((b"a", 50))

    first = clean_all([data(1, b"a"), marker(2)], offsets, KEEP)
    second = clean_all([first[1]], offsets, KEEP)
    third = clean_all(second, offsets, KEEP._replace(now_ms=NOW_MS + RETENTION_MS))

    assert first[0] is None
    assert first[1].delete_horizon_ms is None
    assert second[0].delete_horizon_ms == NOW_MS + RETENTION_MS
    assert second[0].record_count == 1
    assert third == [None]


def test_aborted_data_goes_at_once_even_if_it_is_the_last_of_its_key() -> None:
    aborted = AbortedTransaction(PRODUCER, 1, 2, 3)

    left = clean_all([data(1, b"a"), marker(2, is_aborted=True)], offsets_of(), KEEP, [aborted])

    assert left[0] is None
    assert left[1].delete_horizon_ms is None, "its transaction still had a batch in this pass"


def test_committed_data_of_the_same_producer_after_an_abort_stays() -> None:
    aborted = AbortedTransaction(PRODUCER, 1, 2, 3)
    batches = [data(1, b"a"), marker(2, is_aborted=True), data(3, b"b"), marker(4)]

    left = clean_all(batches, offsets_of((b"b", 3)), KEEP, [aborted])

    assert [contents(each) for each in left[2:]] == [contents(batch) for batch in batches[2:]]


def test_last_marker_of_a_live_producer_without_data_stays_without_its_record() -> None:
    keep = KEEP._replace(last_records={PRODUCER: LastRecord(-1, 0)}, now_ms=NOW_MS)
    first = clean_all([marker(2)], offsets_of(), keep)

    left = clean_all(first, offsets_of(), keep._replace(now_ms=NOW_MS + RETENTION_MS))

    assert (left[0].record_count, left[0].is_control, left[0].producer_epoch) == (0, True, 0)


# --- bad input


def test_corrupt_batch_is_reported_with_its_offset() -> None:
    bytes_ = bytearray(batch_of([record(77, b"a")]).data)
    bytes_[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="batch at offset 77"):
        clean(parse_batch(bytes_), offsets_of())

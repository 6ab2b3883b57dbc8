"""The interface of a partition's log: appends, reads, rolls, watermarks, ids."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import (
    ErrorCode,
    KafkaError,
    OffsetOutOfRangeError,
)
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import Uuid
from ottla.wire.records import (
    ControlRecordType,
    build_end_transaction_marker,
    iterate_batches,
    parse_batch,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray | bytes, **options: Any) -> tuple[int, int]:
    result = log.append_as_leader(batch, leader_epoch=options.pop("leader_epoch", 0), now_ms=NOW_MS, **options)
    return result.first_offset, result.last_offset


def end_transaction(log: PartitionLog, kind: ControlRecordType, producer_id: int, epoch: int = 0) -> None:
    marker = build_end_transaction_marker(
        kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    append(log, marker, origin=AppendOrigin.COORDINATOR)


# --- reading


def test_read_within_a_batch_returns_the_whole_batch(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(3))
    append(log, make_batch(3))

    records = log.read(4, size_bytes_max=10_000).records

    assert records is not None
    assert [batch.base_offset for batch in iterate_batches(records.read())] == [3]


def test_first_batch_is_returned_whole_above_the_size_limit(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    batch = make_batch(3)
    append(log, batch)

    assert log.read(0, size_bytes_max=1).size_bytes == len(batch)
    assert log.read(0, size_bytes_max=1, at_least_one=False).size_bytes == 1
    assert log.read(0, size_bytes_max=0, at_least_one=False).records is None


def test_read_ends_at_its_size_limit(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    size_bytes = len(make_batch(1))
    for _ in range(3):
        append(log, make_batch(1))

    assert log.read(0, size_bytes_max=size_bytes + 5).size_bytes == size_bytes + 5
    assert log.read(0, size_bytes_max=10_000).size_bytes == 3 * size_bytes


def test_read_stops_below_its_upper_bound(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(index_interval_bytes=0)
    size_bytes = len(make_batch(1))
    for _ in range(4):
        append(log, make_batch(1))

    assert log.read(0, size_bytes_max=10_000, upper_bound_offset=2).size_bytes == 2 * size_bytes
    assert log.read(1, size_bytes_max=10_000, upper_bound_offset=2).size_bytes == size_bytes
    assert log.read(2, size_bytes_max=10_000, upper_bound_offset=2).records is None


def test_truncation_drops_the_cached_upper_bound(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(4):
        append(log, make_batch(1))
    before = log.read(0, size_bytes_max=10_000, upper_bound_offset=2).size_bytes
    log.truncate_to(0)
    for _ in range(4):
        append(log, make_batch(1, size_bytes=10))

    assert log.read(0, size_bytes_max=10_000, upper_bound_offset=2).size_bytes == 2 * len(make_batch(1, size_bytes=10))
    assert before == 2 * len(make_batch(1))


@pytest.mark.parametrize(
    ("offset", "is_rejected"),
    [
        pytest.param(1, True, id="below-the-log-start"),
        pytest.param(2, False, id="at-the-log-start"),
        pytest.param(4, False, id="at-the-log-end"),
        pytest.param(5, True, id="above-the-log-end"),
    ],
)
def test_read_outside_of_the_log_is_an_error(
    open_log: OpenLog, make_batch: MakeBatch, offset: int, is_rejected: bool
) -> None:
    log = open_log()
    append(log, make_batch(4))
    log.update_high_watermark(4)
    log.delete_records_before(2)

    if is_rejected:
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, size_bytes_max=100)
    else:
        log.read(offset, size_bytes_max=100)


def test_read_in_a_gap_at_a_segments_end_continues_in_the_next_segment(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log()
    log.append_as_follower(make_batch(1))
    log.roll(NOW_MS)
    log.append_as_follower(make_batch(1, base_offset=5))

    records = log.read(3, size_bytes_max=100).records

    assert records is not None
    assert parse_batch(records.read()).base_offset == 5


def test_file_slice_stays_readable_after_its_segments_deletion(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(1))
    records = log.read(0, size_bytes_max=1000).records
    assert records is not None
    log.truncate_fully_and_start_at(10)
    log.tick(60_000)

    assert parse_batch(records.read()).base_offset == 0


# --- rolling


@pytest.mark.parametrize(
    ("room_bytes", "segments"),
    [pytest.param(0, [0], id="exactly-full-stays"), pytest.param(-1, [0, 1], id="one-byte-short-rolls")],
)
def test_segment_rolls_before_it_grows_above_its_size(
    open_log: OpenLog, make_batch: MakeBatch, room_bytes: int, segments: list[int]
) -> None:
    log = open_log(segment_bytes=2 * len(make_batch(1)) + room_bytes)

    for _ in range(2):
        append(log, make_batch(1))

    assert [segment.base_offset for segment in log.segments()] == segments


@pytest.mark.parametrize(
    ("later_ms", "segments"),
    [pytest.param(HOUR_MS, [0], id="exactly-the-age-stays"), pytest.param(HOUR_MS + 1, [0, 1], id="one-ms-more-rolls")],
)
def test_segment_rolls_by_the_time_span_of_its_records(
    open_log: OpenLog, make_batch: MakeBatch, later_ms: int, segments: list[int]
) -> None:
    log = open_log(segment_ms=HOUR_MS, message_timestamp_after_max_ms=10 * HOUR_MS)

    append(log, make_batch(1))
    append(log, make_batch(1, timestamp_ms=NOW_MS + later_ms))

    assert [segment.base_offset for segment in log.segments()] == segments


def test_records_without_timestamps_roll_by_age_of_the_segment(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_ms=HOUR_MS)
    batch = make_batch(1, timestamp_ms=-1)
    log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.append_as_leader(make_batch(1, timestamp_ms=-1), leader_epoch=0, now_ms=NOW_MS + HOUR_MS)
    assert len(log.segments()) == 1

    log.append_as_leader(make_batch(1, timestamp_ms=-1), leader_epoch=0, now_ms=NOW_MS + HOUR_MS + 1)

    assert len(log.segments()) == 2


def test_full_index_rolls_the_segment(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_index_bytes=3 * 12, index_interval_bytes=0)

    for index in range(6):
        append(log, make_batch(1, timestamp_ms=NOW_MS + index))

    # Three time index entries fit, of which the roll keeps one; a segment's first batch is never indexed.
    assert [segment.base_offset for segment in log.segments()] == [0, 3]


def test_rolling_an_empty_segment_does_nothing(open_log: OpenLog) -> None:
    log = open_log()

    log.roll(NOW_MS)

    assert len(log.segments()) == 1


# --- watermarks and transactions


def test_high_watermark_stays_within_the_log(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(4))

    assert log.update_high_watermark(3) == 3
    assert log.update_high_watermark(9) == 4
    log.delete_records_before(2)
    assert log.update_high_watermark(0) == 2


def test_log_start_cannot_pass_the_high_watermark(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(4))
    log.update_high_watermark(3)

    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(4)
    log.delete_records_before(3)
    log.delete_records_before(1)

    assert log.log_start_offset == 3


def test_last_stable_offset_is_bounded_by_the_oldest_open_transaction(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, make_batch(1))
    append(log, make_batch(2, producer_id=1, **options))
    append(log, make_batch(2, producer_id=2, **options))
    log.update_high_watermark(5)
    assert log.last_stable_offset == 1

    end_transaction(log, ControlRecordType.COMMIT, 1)
    log.update_high_watermark(6)

    assert log.last_stable_offset == 3


def test_transaction_ends_once_its_marker_is_replicated(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
    end_transaction(log, ControlRecordType.COMMIT, 1)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0

    log.update_high_watermark(3)

    assert log.last_stable_offset == 3


def test_read_returns_the_aborted_transactions_that_it_overlaps(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(index_interval_bytes=0)
    options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, make_batch(2, producer_id=1, **options))
    append(log, make_batch(2, producer_id=2, **options))
    end_transaction(log, ControlRecordType.ABORT, 1)
    end_transaction(log, ControlRecordType.COMMIT, 2)
    append(log, make_batch(1))
    log.roll(NOW_MS)
    append(log, make_batch(1))

    def aborted(offset: int) -> list[tuple[int, int, int]] | None:
        found = log.read(offset, size_bytes_max=10_000, with_aborted_transactions=True).aborted_transactions
        return None if found is None else [entry[:3] for entry in found]

    assert aborted(0) == [(1, 0, 4)]
    assert aborted(4) == [(1, 0, 4)]
    assert aborted(5) == []
    assert log.read(0, size_bytes_max=10_000).aborted_transactions is None


def test_producers_are_listed_and_expire(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(producer_id_expiration_ms=HOUR_MS)
    append(log, make_batch(1, producer_id=2, producer_epoch=0, base_sequence=0))
    append(log, make_batch(1, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
    assert [entry.producer_id for entry in log.active_producers()] == [1, 2]

    log.expire_producers(NOW_MS + HOUR_MS - 1)
    assert len(log.active_producers()) == 2
    log.expire_producers(NOW_MS + HOUR_MS)

    assert [entry.producer_id for entry in log.active_producers()] == [1], "a transaction is open"


# --- ids and directories


def test_topic_id_is_kept_and_never_changed(open_log: OpenLog) -> None:
    log = open_log()
    log.assign_topic_id(Uuid(b"a" * 16))
    log.close()

    again = open_log(was_clean_shutdown=True)

    assert again.topic_id == b"a" * 16
    again.assign_topic_id(Uuid(b"a" * 16))
    with pytest.raises(KafkaError) as raised:
        again.assign_topic_id(Uuid(b"b" * 16))
    assert raised.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_renamed_log_stays_usable(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    for _ in range(3):
        append(log, make_batch(1))
    log.roll(NOW_MS)

    log.rename_directory("/data/other-0")
    append(log, make_batch(1), leader_epoch=1)

    assert log.read(1, size_bytes_max=1).records is not None
    assert all(path.startswith("/data/other-0/") for path in disk.paths())

"""Appends to a partition's log by leader, coordinator, quorum and follower."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import (
    CorruptRecordError,
    ErrorCode,
    InvalidRecordError,
    KafkaError,
)
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.types import OffsetAndEpoch
from ottla.wire.records import (
    Compression,
    ControlRecordType,
    build_end_transaction_marker,
    parse_batch,
    read_records,
)

NOW_MS = 1_700_000_000_000

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray | bytes, **options: Any) -> tuple[int, int]:
    result = log.append_as_leader(batch, leader_epoch=options.pop("leader_epoch", 0), now_ms=NOW_MS, **options)
    return result.first_offset, result.last_offset


def test_offsets_follow_each_other(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()

    assert append(log, make_batch(3)) == (0, 2)
    assert append(log, make_batch(1)) == (3, 3)
    assert log.log_end_offset == 4


def test_batch_on_disk_has_its_offset_and_epoch(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(2))
    append(log, make_batch(2), leader_epoch=5)

    records = log.read(2, size_bytes_max=1).records
    assert records is not None
    batch = parse_batch(records.read())
    batch.check_crc()
    assert (batch.base_offset, batch.leader_epoch) == (2, 5)


def test_read_only_buffer_is_appended_and_not_changed(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(1))
    sent = bytes(make_batch(1))
    before = bytes(sent)

    assert append(log, sent) == (1, 1)
    assert append(log, memoryview(sent)) == (2, 2)  # type: ignore[arg-type]
    assert sent == before


@pytest.mark.parametrize(
    ("max_message_bytes", "is_rejected"),
    [
        pytest.param(0, False, id="exactly-the-limit-is-accepted"),
        pytest.param(-1, True, id="one-byte-over-is-rejected"),
    ],
)
def test_batch_above_max_message_bytes_is_rejected(
    open_log: OpenLog, make_batch: MakeBatch, max_message_bytes: int, is_rejected: bool
) -> None:
    batch = make_batch(1)
    log = open_log(max_message_bytes=len(batch) + max_message_bytes)

    if is_rejected:
        with pytest.raises(KafkaError) as raised:
            append(log, batch)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    else:
        append(log, batch)


def test_batch_larger_than_a_segment_is_rejected(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_bytes=100)

    with pytest.raises(KafkaError) as raised:
        append(log, make_batch(1, size_bytes=100))

    assert raised.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_rejected_batch_leaves_the_log_unchanged(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(1))
    corrupted = make_batch(1)
    corrupted[-1] ^= 1

    with pytest.raises(CorruptRecordError) as raised:
        append(log, corrupted)

    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.failure) == (1, None)
    assert append(log, make_batch(1)) == (1, 1)


def test_control_batches_are_accepted_from_coordinators_only(open_log: OpenLog) -> None:
    log = open_log()
    marker = build_end_transaction_marker(
        ControlRecordType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )

    with pytest.raises(InvalidRecordError):
        append(log, marker)
    assert append(log, marker, origin=AppendOrigin.COORDINATOR) == (0, 0)


def test_quorum_leader_append_keeps_offsets_and_epochs(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    data = make_batch(2, leader_epoch=3) + make_batch(1, base_offset=2, leader_epoch=4)

    assert append(log, data, origin=AppendOrigin.RAFT_LEADER, leader_epoch=4) == (0, 2)
    assert (log.epoch_for_offset(1), log.epoch_for_offset(2)) == (3, 4)


def test_log_append_time_stamps_every_record(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")

    result = log.append_as_leader(make_batch(3, timestamp_ms=5), leader_epoch=0, now_ms=NOW_MS)

    records = log.read(0, size_bytes_max=1).records
    assert records is not None
    batch = parse_batch(records.read())
    batch.check_crc()
    assert result.log_append_time_ms == NOW_MS
    assert {record.timestamp_ms for record in read_records(batch, size_bytes_max=10_000)} == {NOW_MS}


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", list(Compression), ids=lambda codec: codec.label)
def test_compression_of_the_topic_overrides_the_producers(
    open_log: OpenLog, make_batch: MakeBatch, wanted: str, sent: Compression
) -> None:
    log = open_log(compression_type=wanted)
    append(log, make_batch(1))

    result = append(
        log, make_batch(3, compression=sent, producer_id=4, producer_epoch=1, base_sequence=0), leader_epoch=6
    )

    records = log.read(1, size_bytes_max=1).records
    assert records is not None
    batch = parse_batch(records.read())
    batch.check_crc()
    assert result == (1, 3)
    assert batch.compression.label == ("none" if wanted == "uncompressed" else wanted)
    assert (batch.leader_epoch, batch.producer_id, batch.base_sequence) == (6, 4, 0)
    assert [record.offset for record in read_records(batch, size_bytes_max=10_000)] == [1, 2, 3]


def test_duplicate_batch_returns_its_first_offsets(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    options = {"producer_id": 9, "producer_epoch": 0}
    for sequence in range(6):
        append(log, make_batch(1, base_sequence=sequence, **options))

    again = log.append_as_leader(make_batch(1, base_sequence=1, **options), leader_epoch=0, now_ms=NOW_MS)

    assert (again.is_duplicate, again.first_offset, again.last_offset) == (True, 1, 1)
    assert log.log_end_offset == 6
    with pytest.raises(KafkaError) as too_old:
        append(log, make_batch(1, base_sequence=0, **options))
    assert too_old.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_a_coordinator_need_no_sequence(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    options = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}

    for _ in range(2):
        append(log, make_batch(1, **options), origin=AppendOrigin.COORDINATOR)

    assert log.log_end_offset == 2


# --- follower appends


def test_follower_appends_the_leaders_batches_unchanged(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    data = make_batch(2, leader_epoch=1) + make_batch(3, base_offset=2, leader_epoch=2)

    result = log.append_as_follower(data)

    assert (result.first_offset, result.last_offset, log.log_end_offset) == (0, 4, 5)
    assert log.offset_for_leader_epoch(1) == OffsetAndEpoch(2, 1)


def test_follower_skips_a_partial_batch(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    data = make_batch(2) + make_batch(3, base_offset=2)

    assert log.append_as_follower(data[:-1]).last_offset == 1
    assert log.append_as_follower(data[: len(make_batch(2)) - 1]).last_offset == -1


def test_follower_accepts_offset_gaps_but_no_decreasing_offsets(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()

    log.append_as_follower(make_batch(1, base_offset=10))

    assert log.log_end_offset == 11
    with pytest.raises(KafkaError) as raised:
        log.append_as_follower(make_batch(1, base_offset=10))
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_follower_checks_the_crc(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    data = make_batch(1)
    data[-1] ^= 1

    with pytest.raises(CorruptRecordError):
        log.append_as_follower(data)


def test_follower_with_smaller_segments_rolls_one_per_batch(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_bytes=300)
    data = b"".join(make_batch(1, base_offset=offset, size_bytes=150) for offset in range(4))

    log.append_as_follower(data)

    assert [segment.base_offset for segment in log.segments()] == [0, 1, 2, 3]


def test_offset_delta_above_int32_rolls_the_segment(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_follower(make_batch(1))

    log.append_as_follower(make_batch(1, base_offset=2**31 - 1))
    log.append_as_follower(make_batch(1, base_offset=2**31))

    assert [segment.base_offset for segment in log.segments()] == [0, 2**31]

"""Cleaning of a log: what is left, what is never touched, and when it is due."""

import pytest

from compacted_log import NOW_MS, CompactedLog, files_with, filled, last_of_each_key
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.dirty_log import measure
from ottla.wire.records import Compression, read_records


def values(log: CompactedLog) -> list[bytes | None]:
    return [record.value for record in log.records()]


def test_last_record_of_each_key_stays_with_its_offset() -> None:
    log = filled()
    before = last_of_each_key(log.records())

    log.clean()

    assert {record.key: record for record in log.records()} == before
    assert [record.offset for record in log.records()] == [25, 26, 27, 28, 29]
    assert log.log.log_end_offset == 30
    assert log.checkpoints == [30]


def test_readers_find_the_next_record_from_every_offset() -> None:
    log = filled()
    log.clean()

    for offset in range(30):
        found = log.log.read(offset, size_bytes_max=1).records.read()
        assert int.from_bytes(found[:8]) == max(offset, 25)


def test_cleaned_log_equals_itself_after_a_restart() -> None:
    log = filled()
    log.clean()
    before = log.records()

    log.open(recovery_point=30)

    assert log.records() == before
    assert log.log.log_end_offset == 30


def test_old_files_stay_for_the_delay_and_no_others_are_left() -> None:
    log = filled()

    log.clean()

    assert files_with(log, ".log.deleted")
    assert not files_with(log, ".cleaned")
    assert not files_with(log, ".swap")
    log.log.remove_deleted_files(log.clock.monotonic_ms())
    assert not files_with(log, ".deleted")


def test_active_segment_is_not_cleaned() -> None:
    log = CompactedLog()
    log.update(segment_bytes=1 << 20)
    for _ in range(3):
        log.append((b"a", b"1"))

    log.clean()

    assert len(log.records()) == 3
    assert log.checkpoints == []


@pytest.mark.parametrize("bound", ["high watermark", "open transaction"])
def test_records_from_the_last_stable_offset_on_are_not_cleaned(bound: str) -> None:
    log = CompactedLog()
    log.append((b"a", b"1"))
    log.append((b"a", b"2"))
    log.roll()
    if bound == "open transaction":
        log.append((b"b", b"3"), producer_id=7, is_transactional=True)
    log.append((b"a", b"4"))
    log.roll()
    if bound == "high watermark":
        log.log.high_watermark = 2

    log.clean()

    assert values(log)[0] == b"2"
    assert log.checkpoints == [2]


def test_records_above_the_recovery_point_are_not_cleaned() -> None:
    log = filled()
    log.log._local.durability.recovery_point = 0

    log.clean()

    assert len(log.records()) == 30


def test_records_younger_than_min_compaction_lag_are_not_cleaned() -> None:
    log = filled(min_compaction_lag_ms=10_000)
    log.clock.now_ms += 9_999
    log.clean()
    assert len(log.records()) == 30

    log.clock.now_ms += 1
    log.clean()

    assert len(log.records()) == 5


@pytest.mark.parametrize(("elapsed_ms", "is_cleaned"), [(10_000, False), (10_001, True)])
def test_max_compaction_lag_overrides_the_dirty_ratio(elapsed_ms: int, is_cleaned: bool) -> None:
    log = filled(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10_000)
    log.clock.now_ms += elapsed_ms

    log.clean()

    assert (len(log.records()) == 5) == is_cleaned


def test_compacted_segment_is_rolled_early_enough_for_max_compaction_lag() -> None:
    log = CompactedLog()
    log.update(max_compaction_lag_ms=10_000)
    log.append((b"a", b"1"))
    log.clock.now_ms += 10_001
    log.append((b"a", b"2"))

    assert log.base_offsets() == [0, 1]


@pytest.mark.parametrize(("ratio", "is_cleaned"), [(0.5, False), (0.3, True)])
def test_dirty_ratio(ratio: float, is_cleaned: bool) -> None:
    log = filled()
    log.update(segment_bytes=1 << 20)
    log.clean()
    log.update(min_cleanable_dirty_ratio=ratio)
    for _ in range(3):
        log.append((b"new", b"value-00"))
    log.roll()

    log.clean()

    assert (len(log.records()) == 6) == is_cleaned


def test_small_map_cleans_in_several_rounds() -> None:
    log = CompactedLog(cleaner=CleanerConfig(dedupe_buffer_bytes=24 * 5, io_buffer_bytes=8))
    for number in range(30):
        log.append((b"key-%d" % (number % 10), b"value-%02d" % number))
    log.roll()

    log.clean()

    assert last_of_each_key(log.records()) == {record.key: record for record in log.records()}
    assert [record.offset for record in log.records()][-10:] == list(range(20, 30))
    assert log.checkpoints[-1] == 30
    assert len(log.checkpoints) > 3
    assert log.checkpoints == sorted(set(log.checkpoints))


def test_tombstone_is_removed_after_delete_retention() -> None:
    log = CompactedLog()
    log.append((b"a", b"1"), (b"b", b"1"))
    log.append((b"a", None))
    log.roll()
    log.clean()
    assert [(each.key, each.value) for each in log.records()] == [(b"b", b"1"), (b"a", None)]

    log.clock.now_ms += 1_000
    log.append((b"c", b"1"))
    log.roll()
    log.clean()

    assert [(each.key, each.value) for each in log.records()] == [(b"b", b"1"), (b"c", b"1")]


def test_aborted_records_are_removed_with_their_index_and_then_their_marker() -> None:
    log = CompactedLog()
    log.append((b"a", b"committed"))
    log.append((b"a", b"aborted"), producer_id=7, is_transactional=True)
    log.end_transaction(7, is_aborted=True)
    log.append((b"z", b"1"), producer_id=7)  # the producer's last batch
    log.roll()
    log.clean()
    assert values(log) == [b"committed", b"1"]
    assert [batch.is_control for batch in log.batches()] == [False, True, False]

    for _ in range(2):
        log.append((b"x", b"1"))
        log.roll()
        log.clean()
        log.clock.now_ms += 1_000
    log.append((b"x", b"1"))
    log.roll()
    log.clean()

    assert not any(batch.is_control for batch in log.batches())
    assert not files_with(log, ".txnindex")


def test_transaction_index_of_the_cleaned_segment_has_the_transactions_of_all_merged_ones() -> None:
    log = CompactedLog()
    for producer_id in (1, 2, 3):
        log.append((b"a", b"aborted"), producer_id=producer_id, is_transactional=True)
        log.append((b"k%d" % producer_id, b"1"))
        log.end_transaction(producer_id, is_aborted=True)
        log.roll()
    log.update(segment_bytes=1 << 20)
    entries = [entry for segment in log.log.segments() for entry in segment.transaction_index.entries()]

    log.clean()

    assert log.base_offsets() == [0, 9]
    assert log.log.segments()[0].transaction_index.entries() == entries


def test_producers_continue_after_their_records_were_removed_and_the_state_was_lost() -> None:
    log = CompactedLog()
    log.append((b"a", b"1"), producer_id=7)
    log.append((b"a", b"2"), (b"a", b"3"), producer_id=7)
    log.append((b"a", b"4"))
    log.roll()
    log.clean()
    assert [batch.record_count for batch in log.batches()] == [0, 1]
    for path in files_with(log, ".snapshot"):
        log.disk.remove(path)

    log.open()

    (producer,) = log.log.active_producers()
    assert (producer.last_sequence, producer.last_data_offset) == (2, 2)
    log.append((b"b", b"5"), producer_id=7)


def test_segments_merge_while_they_fit_into_one() -> None:
    log = filled()
    count = len(log.log.segments())
    for number in range(30):
        log.append((b"unique-%d" % number, b"value-%02d" % number))
    log.roll()

    log.clean()

    assert count > 5
    assert all(segment.size_bytes <= log.config.segment_bytes for segment in log.log.segments())
    assert len(log.records()) == 35


def test_emptied_segments_at_the_end_of_a_group_are_covered_by_an_empty_batch() -> None:
    log = CompactedLog()
    log.update(segment_bytes=1 << 20)
    log.append((b"a", b"1"))
    log.append((b"keep", b"1"))
    log.roll()
    log.append((b"a", b"2"))
    log.roll()
    log.update(segment_bytes=300)  # the last segment does not fit into the group
    log.append((b"a", b"3" * 200))
    log.roll()

    log.clean()

    assert log.base_offsets() == [0, 3, 4]
    first = [batch for _, batch in log.log.segments()[0].walk_batches()]
    assert [(batch.last_offset, batch.record_count) for batch in first] == [(1, 1), (2, 0)]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec(codec: Compression) -> None:
    log = CompactedLog()
    for number in range(6):
        log.append((b"a", b"1"), (b"b%d" % number, b"2"), (b"a", b"3"), compression=codec)
    log.roll()

    log.clean()

    kept = log.records()
    assert [record.key for record in kept] == [*(b"b%d" % number for number in range(6)), b"a"]
    assert {batch.compression for batch in log.batches()} == {codec}


def test_records_without_key_from_before_the_topic_was_compacted_are_removed() -> None:
    log = CompactedLog()
    log.update(cleanup_policy=frozenset({"delete"}))
    log.append((None, b"1"), (b"a", b"2"))
    log.roll()
    log.update(cleanup_policy=frozenset({"compact"}))

    log.clean()

    assert values(log) == [b"2"]


# --- selection and metrics


def test_first_dirty_offset_outside_the_log_is_corrected() -> None:
    log = filled()
    log.log.first_dirty_offset = 1000

    assert measure(log.log, NOW_MS).first_dirty_offset == 0

    log.log.raise_log_start(5)
    assert measure(log.log, NOW_MS).first_dirty_offset == 5


def test_truncation_lowers_the_first_dirty_offset() -> None:
    log = filled()
    log.clean()

    log.log.truncate_to(27)

    assert log.log.first_dirty_offset == 27


def test_sample_has_the_last_cleaning() -> None:
    log = filled()
    log.start_cleaning()
    log.clock.now_ms += 2_000
    log.background.complete_work()

    sample = log.cleaner.sample([])

    assert (sample.clean_time_seconds, sample.dirty_percent_max) == (2, 100)
    assert 0 < sample.recopy_percent < 50
    assert sample.map_utilization_percent > 0


def test_records_decode_after_cleaning() -> None:
    log = filled()
    log.clean()

    assert [len(read_records(batch, size_bytes_max=1000)) for batch in log.batches()] == [1] * 5

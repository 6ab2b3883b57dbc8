"""Changes, failures and limits during a cleaning: it ends without harm, waits, or marks the partition."""

import logging

import pytest

from compacted_log import NOW_MS, TOPIC_PARTITION, CompactedLog, files_with, filled, last_of_each_key
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.file_names import LOG_SUFFIX, segment_path
from ottla.wire.records import Compression

# --- changes during a cleaning


def advance(log: CompactedLog, slices: int) -> None:
    for _ in range(slices):
        log.background._waiting.popleft()()


@pytest.mark.parametrize("slices", [0, 1, 5, 20])
def test_truncation_ends_a_cleaning_that_would_remove_records_for_truncated_ones(slices: int) -> None:
    log = filled()
    log.start_cleaning()
    advance(log, slices)

    log.log.truncate_to(12)
    log.background.complete_work()

    assert last_of_each_key(log.records()) == {
        b"key-%d" % key: record for key in range(5) for record in log.records() if record.key == b"key-%d" % key
    }
    assert {record.offset for record in log.records()} >= {7, 8, 9, 10, 11}
    assert log.checkpoints == []
    assert not files_with(log, ".cleaned")


@pytest.mark.parametrize("slices", [0, 3, 10])
@pytest.mark.parametrize("change", ["deleted", "moved", "policy", "turned off"])
def test_other_changes_end_a_cleaning(slices: int, change: str, caplog: pytest.LogCaptureFixture) -> None:
    log = filled()
    log.start_cleaning()
    advance(log, slices)
    before = log.records()

    with caplog.at_level(logging.INFO):
        if change == "deleted":
            del log.logs[TOPIC_PARTITION]
        elif change == "moved":
            log.log.rename_directory("/data/topic-0.x-delete")
        elif change == "policy":
            log.update(cleanup_policy=frozenset({"delete"}))
        else:
            log.cleaner.use_config(CleanerConfig(is_enabled=False))
        log.background.complete_work()

    assert log.records() == before
    assert "is given up" in caplog.text
    assert log.failures == []
    assert log.checkpoints == []


def test_cleaning_of_segments_that_retention_deletes_is_repeated_without_them() -> None:
    log = filled(cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=-1)
    log.start_cleaning()
    advance(log, 3)
    log.log.delete_records_before(13)

    log.log.apply_retention(NOW_MS)
    log.clean()

    assert log.failures == []
    assert log.log.log_start_offset == 13
    assert [record.offset for record in log.records()] == [25, 26, 27, 28, 29]
    assert not files_with(log, ".cleaned")


def test_appends_during_a_cleaning_are_kept() -> None:
    log = filled()
    log.start_cleaning()
    for number in range(10):
        advance(log, 3)
        log.append((b"new-%d" % number, b"1"))

    log.background.complete_work()

    assert {record.offset for record in log.records()} == {25, 26, 27, 28, 29, *range(30, 40)}


# --- failures


def corrupt(log: CompactedLog, offset: int) -> None:
    segment = next(each for each in reversed(log.log.segments()) if each.base_offset <= offset)
    place = segment.find(offset)
    assert place is not None
    path = segment_path("/data/topic-0", segment.base_offset, LOG_SUFFIX)
    log.disk.open(path).pwritev([b"\xff"], place.position + place.size_bytes - 1)


def test_corrupt_batch_makes_the_partition_uncleanable_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    log = filled()
    corrupt(log, 17)

    log.clean()
    log.clean()

    assert len(caplog.records) == 1
    assert "Marking topic-0 as uncleanable" in caplog.text
    assert "batch at offset 17" in caplog.text
    assert log.log.failure is None
    sample = log.cleaner.sample(["/data", "/other"])
    assert sample.uncleanable["/data"][0] == 1
    assert sample.uncleanable["/data"][1] > 0
    assert sample.uncleanable["/other"] == (0, 0)
    assert not files_with(log, ".cleaned")


def test_bomb_makes_the_partition_uncleanable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.log.cleaner.cleaning.RECORDS_SIZE_BYTES_MAX", 1_000)
    log = CompactedLog()
    log.update(segment_bytes=1 << 20)
    log.append((b"a", b"1"))
    log.append((b"bomb", bytes(10_000)), compression=Compression.ZSTD)
    log.roll()

    log.clean()

    assert "uncleanable" in caplog.text
    assert "the batch at offset 1" in caplog.text


def test_write_error_takes_the_log_offline() -> None:
    log = filled()
    log.disk.fail_next("write", 5, path_part=".cleaned")

    log.clean()

    assert len(log.failures) == 1
    assert log.log.failure is not None


def test_cleaning_without_a_thread_is_tried_again_after_the_backoff() -> None:
    log = filled()
    log.background.fail_next(2)

    log.clean()
    assert len(log.records()) == 30
    log.clock.now_ms += 15_000
    log.tick()
    log.background.complete_work()

    assert len(log.records()) == 5


def test_io_is_throttled() -> None:
    log = CompactedLog(cleaner=CleanerConfig(io_buffer_bytes=8, io_bytes_per_second_max=1_000))
    for number in range(30):
        log.append((b"key-%d" % (number % 5), b"value-%02d" % number))
    log.roll()
    size_bytes = log.log.size_bytes
    log.start_cleaning()

    while log.checkpoints != [30]:
        log.background.complete_work()
        log.clock.now_ms = NOW_MS + log.cleaner.next_ms(log.clock.monotonic_ms())
        log.tick()

    assert log.clock.monotonic_ms() >= 2 * size_bytes

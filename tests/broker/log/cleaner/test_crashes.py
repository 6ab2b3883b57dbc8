"""A process or a host that dies at any operation of a cleaning: the log is the one before or the one after."""

import errno
from collections.abc import Callable

import pytest

from compacted_log import CompactedLog, files_with
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import Record


class _DiedError(BaseException):
    """The process has ended: nothing in the broker may catch it."""


def fill(log: CompactedLog) -> None:
    """Fill segments that one group merges, with aborted data, a producer without records and an emptied tail."""
    log.update(segment_bytes=1 << 20)
    log.append((b"a", b"1"), producer_id=7)
    log.append((b"b", b"1"))
    log.append((b"b", b"aborted"), producer_id=8, is_transactional=True)
    log.roll()
    log.append((b"c", b"1"))
    log.end_transaction(8, is_aborted=True)
    log.append((b"c", None))
    log.roll()
    log.append((b"a", b"2"))
    log.roll()
    log.update(segment_bytes=1_000)
    log.append((b"a", b"3" * 900))
    log.roll()


def state(log: CompactedLog) -> list[tuple[int, bytes]]:
    """Every segment that has bytes: one without is no difference to a reader."""
    found = []
    for segment in log.log.segments():
        data = b"".join(bytes(batch.data) for _, batch in segment.walk_batches())
        if data:
            found.append((segment.base_offset, data))
    return found


def committed(log: CompactedLog) -> list[Record]:
    return log.records(is_committed=True)


def count_operations(log: CompactedLog, die_at: int) -> Callable[[], int]:
    """Let the process die before operation ``die_at`` on the disk, counted from now on; return their count so far."""
    count = 0
    original = log.disk.count

    def counted(operation: str, path: str) -> None:
        nonlocal count
        count += 1
        if count > die_at:
            raise _DiedError
        original(operation, path)

    log.disk.count = counted  # type: ignore[method-assign]
    return lambda: count


def total_operations() -> int:
    log = CompactedLog()
    fill(log)
    counted = count_operations(log, 1 << 30)
    log.clean()
    return counted()


def run_until(log: CompactedLog, die_at: int) -> None:
    original = log.disk.count
    count_operations(log, die_at)
    try:
        log.clean()
    except _DiedError:
        pass
    finally:
        log.disk.count = original  # type: ignore[method-assign]


@pytest.mark.parametrize("has_lost_writes", [False, True], ids=["kill -9", "power cut"])
@pytest.mark.parametrize("is_clean_recovery_point", [False, True], ids=["recovery from 0", "recovery point at the end"])
def test_log_is_the_one_before_or_the_one_after(*, has_lost_writes: bool, is_clean_recovery_point: bool) -> None:
    before, after = CompactedLog(), CompactedLog()
    fill(before)
    fill(after)
    after.clean()
    states = [state(before), state(after)]
    groups_replaced = set()
    for die_at in range(total_operations() + 1):
        log = CompactedLog()
        fill(log)
        end_offset, entries = log.log.log_end_offset, committed(log)
        run_until(log, die_at)
        if has_lost_writes:
            log.disk.crash(None)

        log.open(recovery_point=end_offset if is_clean_recovery_point else 0)

        found = state(log)
        groups = [each for each in found if each[0] == 0] or [(0, b"")]
        assert groups[0] in [states[0][0], states[1][0]], die_at
        is_replaced = groups[0] == states[1][0]
        groups_replaced.add(is_replaced)
        expected = states[1] if is_replaced else states[0]
        assert [each for each in found if each[0] < 8] == [each for each in expected if each[0] < 8], die_at
        assert log.log.log_end_offset == end_offset
        assert {record.key: record for record in committed(log)} == {record.key: record for record in entries}
        producers = {entry.producer_id: entry.last_data_offset for entry in log.log.active_producers()}
        assert producers == {7: 0, 8: 2}, die_at
        assert not files_with(log, ".cleaned")
        assert not files_with(log, ".swap")
        log.clean()
        assert committed(log) == committed(after)
    assert groups_replaced == {False, True}


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename", "remove", "read"])
def test_error_of_the_disk_at_any_place_loses_no_record(operation: str) -> None:
    skip = 0
    while True:
        log = CompactedLog()
        fill(log)
        entries = {record.key: record for record in committed(log)}
        log.disk.fail_next(operation, errno.EIO, path_part="topic-0", skip=skip)
        log.clean()
        has_failed = bool(log.failures)
        log.disk.clear_faults()
        reopened: PartitionLog = log.open()

        assert {record.key: record for record in committed(log)} == entries
        assert reopened.failure is None
        if not has_failed:
            break
        skip += 1
    assert skip > 0 or operation == "remove"

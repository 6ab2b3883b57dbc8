"""Work for large batches and many ranges: in slices, also when the client is gone."""

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.share_acknowledgements import check_batches
from ottla.purgatory.steps import Steps, run_to_end
from ottla.share_partitions.in_flight_batch import RECORDS_MAX
from ottla.share_partitions.share_partition import AcknowledgementBatch
from ottla.wire.messages.share_acknowledge import AcknowledgementBatch as SentBatch
from recording_persister import RecordingPersister
from share_partition_node import acknowledge, acquire, new_share_partition

RECORDS = 262_144


def test_lock_has_the_range_that_was_acquired() -> None:
    partition = new_share_partition(RecordingPersister())
    assert acquire(partition, "a", [(0, RECORDS - 1)]) == [(0, RECORDS - 1, 1)]
    assert acknowledge(partition, "a", (0, RECORDS - 1, 2)) == (ErrorCode.NONE, None)

    for number in range(128):
        acquired = acquire(partition, "a", [(0, RECORDS - 1)], records_max=1, is_record_limit=True)
        assert acquired == [(number, number, 2)]

    locks = partition.window.locks.of_member("a")
    assert [(lock.first_offset, lock.last_offset) for lock in locks] == [(each, each) for each in range(128)]


def test_large_batch_is_in_flight_in_parts() -> None:
    persister = RecordingPersister()
    partition = new_share_partition(persister)
    acquire(partition, "a", [(0, RECORDS - 1)])
    assert max(map(len, partition.window)) == RECORDS_MAX
    assert acknowledge(partition, "a", (0, RECORDS - 1, 2)) == (ErrorCode.NONE, None)

    restarted = new_share_partition(persister)
    assert len(restarted.window) == 1
    acquired = acquire(restarted, "a", [(0, RECORDS - 1)], records_max=RECORDS)
    assert acquired[-1] == (RECORDS - RECORDS_MAX, RECORDS - 1, 2)

    assert max(map(len, restarted.window)) == RECORDS_MAX


def test_release_of_a_large_batch_takes_slices() -> None:
    partition = new_share_partition(RecordingPersister())
    acquire(partition, "a", [(0, RECORDS - 1)])

    assert sum(1 for _ in partition.release_member("a", older_than=1)) >= RECORDS // RECORDS_MAX


def test_renewal_of_many_ranges_takes_slices_and_few_locks() -> None:
    partition = new_share_partition(RecordingPersister())
    acquire(partition, "a", [(0, 2 * RECORDS_MAX - 1)])
    types = AcknowledgementBatch(0, 2 * RECORDS_MAX - 1, bytes((4, 1)) * RECORDS_MAX)

    steps = partition.acknowledge("a", [types], now_ms=5)

    assert sum(1 for _ in steps) > RECORDS_MAX // 128
    assert len(partition.window.locks) == 2


@pytest.mark.parametrize(
    ("batch_count", "types"),
    [pytest.param(64, 4_096, id="many-long-batches"), pytest.param(1, 64 * 4_096, id="one-very-long-batch")],
)
def test_check_of_many_types_takes_slices(batch_count: int, types: int) -> None:
    sent = [
        SentBatch(first_offset=each * types, last_offset=(each + 1) * types - 1, acknowledge_types=[1] * types)
        for each in range(batch_count)
    ]

    assert sum(1 for _ in check_batches(sent, allows_renew=False)) >= 64


def test_acknowledgement_of_a_client_that_is_gone_is_undone_later() -> None:
    later: list[Steps[object]] = []
    partition = new_share_partition(RecordingPersister(), run_later=later.append)
    acquire(partition, "a", [(0, 999)])
    steps = partition.acknowledge("a", [AcknowledgementBatch(each, each, b"\x01") for each in range(1_000)], now_ms=0)
    next(steps)

    steps.close()

    assert partition.window.complete_count > 0
    assert len(later) == 1
    run_to_end(later.pop())
    assert partition.window.complete_count == 0
    assert acknowledge(partition, "a", (0, 999, 1)) == (ErrorCode.NONE, None)


def test_log_lines_about_share_partitions_are_limited_and_quoted(caplog: pytest.LogCaptureFixture) -> None:
    persister = RecordingPersister()
    persister.read_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    new_share_partition(persister, group_id="a\nb", may_log=lambda: False)
    assert not caplog.records

    new_share_partition(persister, group_id="a\nb")

    assert r"'a\nb'" in caplog.text

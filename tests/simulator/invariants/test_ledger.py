"""The ledger: committed batches and acknowledged values; and clocks that are wrong on purpose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey, PartitionLedger, batches_in
from ottla.simulator.world.clock import HostClock, SimulatedClock
from ottla.types import Uuid
from ottla.wire.records import Record, RecordBatch, build_batch, parse_batch

KEY = PartitionKey("t", Uuid(bytes(16)), 0)


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> RecordBatch:
    records = [Record(base_offset + index, 0, None, value) for index, value in enumerate(values)]
    options = {} if producer_id < 0 else {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return parse_batch(build_batch(records, base_offset=base_offset, **options))  # type: ignore[arg-type]


def test_gap_between_batches_is_a_violation() -> None:
    ledger = PartitionLedger(KEY)
    ledger.add(batch(0, b"a", b"b"))
    assert ledger.end == 2

    with pytest.raises(InvariantViolation, match="OffsetsDenseAndNeverReused: t-0 continues at offset 3 behind 2"):
        ledger.add(batch(3, b"c"))


def test_duplicate_value_of_an_idempotent_producer_is_a_violation() -> None:
    ledger = PartitionLedger(KEY)
    ledger.add(batch(0, b"once-1", producer_id=7))

    with pytest.raises(InvariantViolation, match="IdempotentProducersNeverDuplicate"):
        ledger.add(batch(1, b"once-1", producer_id=7))


def test_duplicate_of_a_deleted_value_is_no_violation() -> None:
    """Seed 49: a replica whose log starts behind it has never seen it; the same holds for Kafka."""
    ledger = PartitionLedger(KEY)
    ledger.add(batch(0, b"once-1", producer_id=7))
    ledger.deleted_to = 1
    ledger.add(batch(1, b"once-1", producer_id=7))
    assert ledger.end == 2


def test_duplicates_of_other_producers_are_no_violation() -> None:
    ledger = PartitionLedger(KEY)
    ledger.add(batch(0, b"any-1"))
    ledger.add(batch(1, b"any-1"))
    assert ledger.end == 2


def test_records_lost_with_an_excuse_are_removed_batch_by_batch() -> None:
    ledger = PartitionLedger(KEY)
    for base_offset in (0, 2, 4):
        ledger.add(batch(base_offset, b"once-%d" % base_offset, b"x", producer_id=1))
    ledger.acknowledged = {0: b"once-0", 4: b"once-4"}
    ledger.remove_from(3)

    assert ledger.end == 2
    assert ledger.acknowledged == {0: b"once-0"}
    ledger.add(batch(2, b"once-4", b"y", producer_id=1))


def test_offsets_lost_with_an_excuse_may_get_new_records() -> None:
    """Seed 166445752: the log of the replica started behind the lost offsets, so that no batch of theirs was known."""
    ledger = PartitionLedger(KEY, is_excused=True)
    ledger.add(batch(4, b"a", b"b"))
    assert (ledger.end, ledger.find_entry(3)) == (6, None)

    ledger.remove_from(0)
    ledger.add(batch(0, b"c"))

    assert ledger.values == [b"c"]


def test_entry_of_a_batch_is_found_at_each_of_its_offsets() -> None:
    ledger = PartitionLedger(KEY)
    ledger.add(batch(0, b"a", b"b"))

    assert ledger.find_entry(0) == ledger.find_entry(1) == ledger.entries[0]
    assert ledger.find_entry(2) is None


@pytest.mark.parametrize(
    ("start", "end", "found"), [(0, 6, [0, 2, 4]), (1, 6, [0, 2, 4]), (2, 5, [2]), (2, 6, [2, 4]), (6, 6, [])]
)
def test_batches_between_offsets_are_whole(start: int, end: int, found: list[int]) -> None:
    data = b"".join(bytes(batch(base_offset, b"a", b"b").data) for base_offset in (0, 2, 4))

    assert [each.base_offset for each in batches_in(data, start, end)] == found


@given(
    drift_ppm=st.integers(-5_000, 5_000),
    started_ms=st.integers(0, 10**6),
    true_ms=st.integers(0, 10**8),
    ahead_ms=st.integers(0, 10**6),
)
def test_true_time_is_the_first_with_the_reading_of_a_host_clock(
    drift_ppm: int, started_ms: int, true_ms: int, ahead_ms: int
) -> None:
    truth = SimulatedClock()
    clock = HostClock(truth, started_ms=started_ms, drift_ppm=drift_ppm)
    truth.advance(true_ms)
    wanted_ms = clock.monotonic_ms() + ahead_ms
    at_ms = clock.true_ms(wanted_ms)
    early = SimulatedClock()
    early.advance(max(0, at_ms - 1))
    truth.advance(max(0, at_ms - true_ms))

    assert clock.monotonic_ms() >= wanted_ms
    if at_ms > true_ms:
        assert HostClock(early, started_ms=started_ms, drift_ppm=drift_ppm).monotonic_ms() < wanted_ms


def test_skew_affects_the_wall_clock_only() -> None:
    truth = SimulatedClock()
    clock = HostClock(truth)
    before_ms = clock.monotonic_ms()
    clock.skew_ms = -5_000

    assert clock.wall_ms() == truth.wall_ms() - 5_000
    assert clock.monotonic_ms() == before_ms

"""The invariant of compaction: which records may go, and what a reader may miss."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.invariants.cluster_invariants import _is_left_of
from ottla.simulator.invariants.compaction_invariants import CompactionKeepsTheLastOfEachKey, check_scan
from ottla.simulator.invariants.deleted_segment import ReplacedSegment
from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey, PartitionLedger
from ottla.simulator.invariants.state_observer import SegmentReplacement
from ottla.simulator.world.clock import HostClock, SimulatedClock
from ottla.simulator.world.cluster import Cluster
from ottla.types import Uuid
from ottla.wire.records import Record, RecordBatch, build_batch, parse_batch

KEY = PartitionKey("keyed", Uuid(bytes(16)), 0)
PUT, DELETED = Record(0, 0, b"k", b"v"), Record(1, 0, b"k", None)
NOW_MS = 1_000


def batch(records: Sequence[Record], *, horizon_ms: int | None = None) -> RecordBatch:
    return parse_batch(build_batch(records, base_offset=0, last_offset=1, delete_horizon_ms=horizon_ms))


def replace(replaced: RecordBatch, cleaned: RecordBatch | None) -> None:
    """Replace a segment of one batch, at `NOW_MS`."""
    place: Any = SimpleNamespace(node_id=1, newest_wall_ms=NOW_MS)
    partition: Any = SimpleNamespace(log=SimpleNamespace(high_watermark=2))
    segment = ReplacedSegment([replaced], [] if cleaned is None else [cleaned], [])
    state_observer: Any = None
    CompactionKeepsTheLastOfEachKey(state_observer).on_replacement(SegmentReplacement(place, partition, KEY, segment))


@pytest.mark.parametrize(("left", "is_kept"), [(DELETED, True), (PUT, False)], ids=["tombstone", "value"])
def test_value_before_a_tombstone_may_go_but_not_the_tombstone(left: Record, is_kept: bool) -> None:
    cleaned = batch([left], horizon_ms=NOW_MS + 1)
    if is_kept:
        replace(batch([PUT, DELETED]), cleaned)
    else:
        with pytest.raises(InvariantViolation, match="loses the tombstone"):
            replace(batch([PUT, DELETED]), cleaned)


@pytest.mark.parametrize(("horizon_ms", "is_kept"), [(None, False), (NOW_MS + 1, False), (NOW_MS, True)])
def test_tombstone_goes_after_its_delete_horizon(horizon_ms: int | None, is_kept: bool) -> None:
    replaced = batch([DELETED], horizon_ms=horizon_ms)
    if is_kept:
        replace(replaced, None)
    else:
        with pytest.raises(InvariantViolation, match="loses the tombstone"):
            replace(replaced, None)


def test_last_value_of_a_key_stays() -> None:
    with pytest.raises(InvariantViolation, match="loses b'v'"):
        replace(batch([PUT]), None)


@pytest.mark.parametrize(
    ("left", "is_left"),
    [
        ([PUT, DELETED], True),
        ([DELETED], True),
        ([PUT], True),
        ([Record(0, 0, b"k", b"other")], False),
        ([Record(0, 0, b"other", b"v")], False),
    ],
)
def test_replica_of_a_keyed_topic_has_a_part_of_each_committed_batch(left: list[Record], is_left: bool) -> None:
    ledger = PartitionLedger(KEY, is_keyed=True)
    ledger.add(batch([PUT, DELETED]))

    assert _is_left_of(ledger, ledger.entries[0], batch(left, horizon_ms=NOW_MS)) is is_left


@pytest.mark.parametrize(("position", "table", "is_kept"), [(1, {b"k": b"v"}, True), (2, {b"k": b"v"}, False)])
def test_reader_from_the_start_knows_the_last_value_of_each_key(
    position: int, table: dict[bytes, bytes], is_kept: bool
) -> None:
    ledger = PartitionLedger(KEY, is_keyed=True)
    ledger.add(batch([PUT, DELETED]))

    if is_kept:
        check_scan(ledger, position, table)
    else:
        with pytest.raises(InvariantViolation, match="CompactionKeepsTheLastOfEachKey"):
            check_scan(ledger, position, table)


def test_value_may_be_removed_in_favour_of_a_record_behind_the_position() -> None:
    ledger = PartitionLedger(KEY, is_keyed=True)
    ledger.add(batch([PUT, Record(1, 0, b"k", b"newer")]))

    check_scan(ledger, 1, {})
    with pytest.raises(InvariantViolation, match="CompactionKeepsTheLastOfEachKey"):
        check_scan(ledger, 2, {})


def test_newest_reading_of_a_wall_clock_outlives_a_step_back() -> None:
    place = Cluster(seed=1, brokers=1).nodes[1]
    place.clock = HostClock(SimulatedClock(), skew_ms=5_000)
    newest_ms = place.clock.wall_ms()
    place.set_skew(0)

    assert (place.newest_wall_ms, place.step_count) == (newest_ms, 1)

"""Idempotent and transactional producers: accepted, duplicate and rejected batches."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.log.producer_state import (
    BatchMetadata,
    Marker,
    ProducerState,
    ProducerStateEntry,
    format_snapshot,
    parse_snapshot,
    parse_snapshot_entries,
)
from ottla.types import TopicPartition
from ottla.wire.records import ControlRecordType, RecordBatch, build_end_transaction_marker, parse_batch

NOW_MS = 1_700_000_000_000
SEQUENCE_MAX = 2**31 - 1

MakeBatch = Callable[..., bytearray]


@pytest.fixture
def state() -> ProducerState:
    return ProducerState(TopicPartition("topic", 0), expiration_ms=1000)


@pytest.fixture
def batch(make_batch: MakeBatch) -> Callable[..., RecordBatch]:
    def make(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0, **options: Any) -> RecordBatch:
        data = make_batch(
            count, base_offset=offset, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **options
        )
        return parse_batch(data)

    return make


MakeProducerBatch = Callable[..., RecordBatch]


def marker_batch(
    kind: ControlRecordType, *, epoch: int = 0, offset: int = 0, coordinator_epoch: int = 0
) -> RecordBatch:
    return parse_batch(
        build_end_transaction_marker(
            kind,
            producer_id=7,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
        )
    )


def rejection_code(state: ProducerState, batch: RecordBatch) -> ErrorCode | None:
    try:
        state.check_data(batch, offset=100, check_sequence=True)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("epoch", "sequence", "expected"),
    [
        pytest.param(1, 5, None, id="next-in-sequence"),
        pytest.param(1, 4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="one-behind"),
        pytest.param(1, 6, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="one-ahead"),
        pytest.param(1, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="from-the-start-without-a-new-epoch"),
        pytest.param(2, 0, None, id="new-epoch-from-the-start"),
        pytest.param(2, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, id="new-epoch-not-from-the-start"),
        pytest.param(0, 5, ErrorCode.INVALID_PRODUCER_EPOCH, id="old-epoch"),
    ],
)
def test_epochs_rise_and_sequences_have_no_gap(
    state: ProducerState, batch: MakeProducerBatch, epoch: int, sequence: int, expected: ErrorCode | None
) -> None:
    state.on_data(batch(0, count=5, epoch=1))

    assert rejection_code(state, batch(sequence, epoch=epoch)) is expected


def test_unknown_producer_may_start_with_any_sequence(state: ProducerState, batch: MakeProducerBatch) -> None:
    assert rejection_code(state, batch(1234)) is None


def test_after_the_largest_sequence_comes_zero(state: ProducerState, batch: MakeProducerBatch) -> None:
    state.on_data(batch(SEQUENCE_MAX))

    assert rejection_code(state, batch(0)) is None
    assert rejection_code(state, batch(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_wraps_around_within_a_batch(state: ProducerState, batch: MakeProducerBatch) -> None:
    wrapped = batch(SEQUENCE_MAX - 1, count=4)
    state.on_data(wrapped)

    assert rejection_code(state, batch(2)) is None
    assert state.find_duplicate(wrapped) is not None


def test_last_five_batches_are_recognized_as_duplicates(state: ProducerState, batch: MakeProducerBatch) -> None:
    for sequence in range(6):
        state.on_data(batch(sequence, offset=10 + sequence))

    found = [state.find_duplicate(batch(sequence)) for sequence in range(6)]

    assert [None if known is None else known.last_offset for known in found] == [None, 11, 12, 13, 14, 15]


def test_duplicate_has_the_same_epoch_and_the_same_sequences(state: ProducerState, batch: MakeProducerBatch) -> None:
    state.on_data(batch(0, count=3))

    assert state.find_duplicate(batch(0, count=2)) is None
    assert state.find_duplicate(batch(1, count=2)) is None
    assert state.find_duplicate(batch(0, count=3, epoch=1)) is None
    assert state.find_duplicate(batch(0, count=3)) is not None


def test_new_epoch_drops_the_old_batches(state: ProducerState, batch: MakeProducerBatch) -> None:
    state.on_data(batch(0, count=3))
    state.on_data(batch(0, epoch=1))

    assert [known.last_sequence for known in state.producers[7].batches] == [0]


def test_plain_batch_within_a_transaction_is_rejected(state: ProducerState, batch: MakeProducerBatch) -> None:
    state.on_data(batch(0, is_transactional=True))

    assert rejection_code(state, batch(1)) is ErrorCode.INVALID_TXN_STATE
    assert rejection_code(state, batch(1, is_transactional=True)) is None


# --- markers


def marker_rejection_code(
    state: ProducerState, batch: RecordBatch, *, coordinator_epoch: int = 0, transaction_version: int = 0
) -> ErrorCode | None:
    marker = Marker(ControlRecordType.COMMIT, coordinator_epoch, NOW_MS)
    try:
        state.check_marker(batch, marker, offset=5, transaction_version=transaction_version)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("transaction_version", "epoch", "expected"),
    [
        pytest.param(0, 0, ErrorCode.INVALID_PRODUCER_EPOCH, id="v0-older"),
        pytest.param(0, 1, None, id="v0-same"),
        pytest.param(0, 2, None, id="v0-newer"),
        pytest.param(2, 0, ErrorCode.INVALID_PRODUCER_EPOCH, id="v2-older"),
        pytest.param(2, 1, ErrorCode.INVALID_PRODUCER_EPOCH, id="v2-same-while-open"),
        pytest.param(2, 2, None, id="v2-newer"),
    ],
)
def test_marker_of_an_outdated_producer_epoch_is_rejected(
    state: ProducerState,
    batch: MakeProducerBatch,
    transaction_version: int,
    epoch: int,
    expected: ErrorCode | None,
) -> None:
    state.on_data(batch(0, epoch=1, is_transactional=True))
    marker = marker_batch(ControlRecordType.COMMIT, epoch=epoch)

    assert marker_rejection_code(state, marker, transaction_version=transaction_version) is expected


def test_marker_may_be_repeated_once_the_transaction_has_ended(state: ProducerState, batch: MakeProducerBatch) -> None:
    state.on_data(batch(0, epoch=1, is_transactional=True))
    ended = state.on_marker(
        marker_batch(ControlRecordType.COMMIT, epoch=2), Marker(ControlRecordType.COMMIT, 0, NOW_MS)
    )
    assert ended is not None
    state.complete(ended)

    again = marker_batch(ControlRecordType.COMMIT, epoch=2)

    assert marker_rejection_code(state, again, transaction_version=2) is None


def test_last_epoch_of_all_ends_an_open_transaction(state: ProducerState, batch: MakeProducerBatch) -> None:
    """No epoch follows it, so its marker has no new one."""
    state.on_data(batch(0, epoch=2**15 - 1, is_transactional=True))
    marker = marker_batch(ControlRecordType.ABORT, epoch=2**15 - 1)

    assert marker_rejection_code(state, marker, transaction_version=2) is None


@pytest.mark.parametrize(
    ("coordinator_epoch", "expected"),
    [pytest.param(4, ErrorCode.TRANSACTION_COORDINATOR_FENCED, id="replaced"), pytest.param(5, None, id="current")],
)
def test_marker_of_an_older_coordinator_epoch_is_fenced(
    state: ProducerState, batch: MakeProducerBatch, coordinator_epoch: int, expected: ErrorCode | None
) -> None:
    state.on_data(batch(0, is_transactional=True))
    state.on_marker(marker_batch(ControlRecordType.COMMIT), Marker(ControlRecordType.COMMIT, 5, NOW_MS))

    marker = marker_batch(ControlRecordType.COMMIT)

    assert marker_rejection_code(state, marker, coordinator_epoch=coordinator_epoch) is expected


def test_marker_without_an_open_transaction_completes_none(state: ProducerState) -> None:
    marker = Marker(ControlRecordType.ABORT, 0, NOW_MS)

    assert state.on_marker(marker_batch(ControlRecordType.ABORT), marker) is None
    assert state.first_unstable_offset is None


# --- expiry


@pytest.mark.parametrize(
    ("idle_ms", "is_known"), [pytest.param(999, True, id="not-yet"), pytest.param(1000, False, id="at-the-limit")]
)
def test_idle_producer_expires(state: ProducerState, batch: MakeProducerBatch, idle_ms: int, is_known: bool) -> None:
    state.on_data(batch(0))

    state.expire(NOW_MS + idle_ms)

    assert (7 in state.producers) is is_known


# --- snapshots


@st.composite
def some_entries(draw: st.DrawFn) -> list[ProducerStateEntry]:
    """Entries of producers: offsets ascend, timestamps need not; a marker may be newer than the last batch."""
    entries = []
    for producer_id in draw(st.lists(st.integers(0, 2**63 - 1), max_size=5, unique=True)):
        batches: list[BatchMetadata] = []
        for _ in range(draw(st.integers(0, 5))):
            first_offset = draw(st.integers(0, 2**40)) + (batches[-1].last_offset + 1 if batches else 0)
            delta = draw(st.integers(0, 1000))
            time_ms = draw(st.integers(NOW_MS - 2, NOW_MS))
            batches.append(BatchMetadata(draw(st.integers(0, SEQUENCE_MAX)), first_offset + delta, delta, time_ms))
        newest_ms = batches[-1].timestamp_ms if batches else NOW_MS
        entries.append(
            ProducerStateEntry(
                producer_id,
                draw(st.integers(0, 2**15 - 1)),
                draw(st.integers(-1, 2**31 - 1)),
                draw(st.sampled_from([newest_ms, NOW_MS + 1])),
                draw(st.integers(-1, 2**62)),
                batches,
            )
        )
    return entries


@given(some_entries())
def test_snapshot_reads_back_as_it_was_written(written: list[ProducerStateEntry]) -> None:
    found = parse_snapshot(format_snapshot(written), "x.snapshot")

    assert [repr(entry) for entry in found] == [repr(entry) for entry in written]
    assert [entry.last_timestamp_ms for entry in found] == [entry.last_timestamp_ms for entry in written]


@given(some_entries())
def test_newest_batch_is_found_by_readers_that_let_a_later_entry_win(written: list[ProducerStateEntry]) -> None:
    as_kafka = {entry.producer_id: entry for entry in parse_snapshot_entries(format_snapshot(written), "x.snapshot")}

    for entry in written:
        found = as_kafka[entry.producer_id]
        assert (found.last_sequence, found.last_data_offset) == (entry.last_sequence, entry.last_data_offset)
        assert (found.producer_epoch, found.last_timestamp_ms) == (entry.producer_epoch, entry.last_timestamp_ms)
        assert found.coordinator_epoch == entry.coordinator_epoch
        assert found.current_transaction_first_offset == entry.current_transaction_first_offset


def test_batches_of_an_older_epoch_in_a_snapshot_are_not_kept() -> None:
    older = ProducerStateEntry(1, 0, -1, NOW_MS, -1, [BatchMetadata(9, 9, 9, NOW_MS)])
    newer = ProducerStateEntry(1, 1, -1, NOW_MS, -1, [BatchMetadata(0, 10, 0, NOW_MS)])

    (found,) = parse_snapshot(format_snapshot([older, newer]), "x.snapshot")

    assert repr(found) == repr(newer)


@pytest.mark.parametrize("size_bytes", [0, 5, 9, 55])
def test_short_snapshot_is_corrupt(size_bytes: int) -> None:
    data = format_snapshot([ProducerStateEntry(1, 0)])

    with pytest.raises(CorruptRecordError, match=r"x\.snapshot"):
        parse_snapshot(data[:size_bytes], "x.snapshot")


def test_any_flipped_bit_of_a_snapshot_is_detected() -> None:
    data = format_snapshot([ProducerStateEntry(1, 0)])

    for bit in range(len(data) * 8):
        corrupted = bytearray(data)
        corrupted[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecordError):
            parse_snapshot(bytes(corrupted), "x.snapshot")


def test_loading_a_snapshot_skips_expired_producers(state: ProducerState) -> None:
    old = ProducerStateEntry(1, 0, last_timestamp_ms=NOW_MS - 1000)
    open_one = ProducerStateEntry(2, 0, last_timestamp_ms=0, current_transaction_first_offset=5)
    recent = ProducerStateEntry(3, 0, last_timestamp_ms=NOW_MS - 999)

    state.load([old, open_one, recent], end_offset=9, now_ms=NOW_MS)

    assert (sorted(state.producers), state.first_unstable_offset, state.end_offset) == ([2, 3], 5, 9)

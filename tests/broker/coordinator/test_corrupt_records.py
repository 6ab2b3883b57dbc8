"""`CoordinatorLoader` skips corrupt records and batches, logs them in one line, and loads the rest."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corrupt_batches import each_corrupt_batch, parse_log, with_decompression_bomb, with_flipped_bit
from ottla.coordinator.loader import LOADED_RECORDS_PER_SLICE
from ottla.wire.records import (
    ControlRecordType,
    RecordBatch,
    build_batch,
    build_end_transaction_marker,
    control_key,
    parse_batch,
    read_records,
)

PRODUCER_ID = 9
PARTITION = "__counters-1"


def with_records(batch: bytes, **changes: Any) -> bytes:
    """Return the batch with ``changes`` in each of its records."""
    records = read_records(parse_batch(batch), size_bytes_max=1_000_000)
    return build_batch([record._replace(**changes) for record in records])


def transactional(node: Any, *records: tuple[str, int]) -> bytes:
    return build_batch(
        read_records(parse_batch(node.batch(*records)), size_bytes_max=1_000),
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(kind: ControlRecordType, key: bytes | None = None) -> bytes:
    batch = build_end_transaction_marker(
        kind, producer_id=PRODUCER_ID, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    if key is None:
        return batch
    return build_batch(
        [record._replace(key=key) for record in read_records(parse_batch(batch), size_bytes_max=1_000)],
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def skipped_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "skipped" in line]


@each_corrupt_batch
def test_corrupt_batch_is_skipped_with_its_offsets(
    idle_node: Any, caplog: pytest.LogCaptureFixture, corrupt: Callable[[bytes], bytes]
) -> None:
    log = parse_log(idle_node.batch(("a", 1)), corrupt(idle_node.batch(("a", 2), ("b", 2))), idle_node.batch(("c", 3)))

    idle_node.elect(batches=log)

    assert idle_node.read().value == "a=1"
    assert idle_node.shard().counts == {"a": 1, "c": 3}
    (line,) = skipped_lines(caplog)
    assert line.startswith(f"{PARTITION}: skipped 1 corrupt records or batches")
    assert "offsets 1-2: " in line


def test_corrupt_record_is_skipped_with_its_offset(idle_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    log = parse_log(
        idle_node.batch(("a", 1)), with_records(idle_node.batch(("a", 2)), value=b"many"), idle_node.batch(("c", 3))
    )

    idle_node.elect(batches=log)

    assert idle_node.read().value == "a=1"
    assert idle_node.shard().counts == {"a": 1, "c": 3}
    (line,) = skipped_lines(caplog)
    assert "offset 1: b'many' is not a number" in line


def test_records_beside_a_corrupt_one_of_their_batch_are_loaded(idle_node: Any) -> None:
    first, second, last = read_records(parse_batch(idle_node.batch(("a", 1), ("a", 2), ("c", 3))), size_bytes_max=1_000)
    idle_node.write_log(build_batch([first, second._replace(value=b"many"), last]))

    idle_node.elect()

    assert idle_node.shard().counts == {"a": 1, "c": 3}


def test_writes_after_a_load_with_corrupt_records_survive_the_next_load(idle_node: Any) -> None:
    idle_node.write_log(idle_node.batch(("a", 1)), with_flipped_bit(idle_node.batch(("a", 2))))
    for epoch, expected in enumerate(("a=2", "a=3")):
        idle_node.elect(leader_epoch=epoch)
        assert idle_node.increment().value == expected
        idle_node.resign()

    idle_node.elect(leader_epoch=2)

    assert idle_node.read().value == "a=3"


# Transactions


def test_transaction_counts_without_its_corrupt_batch(idle_node: Any) -> None:
    idle_node.write_log(
        transactional(idle_node, ("a", 5)),
        with_flipped_bit(transactional(idle_node, ("b", 5))),
        transactional(idle_node, ("c", 5)),
        marker(ControlRecordType.COMMIT),
    )

    idle_node.elect()

    assert idle_node.shard().counts == {"a": 5, "c": 5}
    assert not idle_node.shard().pending


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(with_flipped_bit(marker(ControlRecordType.ABORT)), id="batch"),
        pytest.param(marker(ControlRecordType.ABORT, control_key(ControlRecordType.ABORT)[:-1]), id="key"),
    ],
)
def test_corrupt_marker_aborts_its_transaction(idle_node: Any, corrupt: bytes) -> None:
    """Left open, the commit of the producer's next transaction would commit what this one may have aborted."""
    idle_node.write_log(
        idle_node.batch(("a", 1)),
        transactional(idle_node, ("a", 5)),
        corrupt,
        transactional(idle_node, ("c", 3)),
        marker(ControlRecordType.COMMIT),
    )

    idle_node.elect()

    assert idle_node.shard().counts == {"a": 1, "c": 3}
    assert not idle_node.shard().pending


# Bounds


def test_partition_full_of_corrupt_records_is_one_line(idle_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    batch = with_records(idle_node.batch(*[("a", 1)] * 1_000), value=b"x" * 500)

    idle_node.elect(batches=parse_log(*[batch] * 30))

    assert idle_node.read().value == "a=0"
    (line,) = skipped_lines(caplog)
    assert "skipped 30000 corrupt records or batches" in line
    assert "offset 4: " in line
    assert "offset 5: " not in line
    assert "and 29995 more" in line
    assert len(line) < 6_000


def test_slice_ends_after_a_number_of_corrupt_records(idle_node: Any) -> None:
    corrupt = with_records(idle_node.batch(*[("a", 1)] * LOADED_RECORDS_PER_SLICE), value=b"many")
    read: list[RecordBatch] = []

    idle_node.start_election(batches=counted(parse_log(*[corrupt] * 3), read))
    assert len(read) == 1
    idle_node.runtime.tick(idle_node.clock.monotonic_ms())
    assert len(read) == 2


def test_slice_ends_after_a_corrupt_batch(idle_node: Any) -> None:
    """Up to 64 MiB of it may have been decompressed."""
    bomb = with_decompression_bomb(idle_node.batch(("a", 1)))
    read: list[RecordBatch] = []

    idle_node.start_election(batches=counted(parse_log(*[bomb] * 3), read))
    assert len(read) == 1
    idle_node.runtime.tick(idle_node.clock.monotonic_ms())
    assert len(read) == 2


def counted(batches: list[RecordBatch], read: list[RecordBatch]) -> Iterator[RecordBatch]:
    for batch in batches:
        read.append(batch)
        yield batch


@pytest.mark.parametrize("ends", ["resigned", "failed"])
def test_skipped_records_are_logged_when_the_load_does_not_end(
    idle_node: Any, caplog: pytest.LogCaptureFixture, ends: str
) -> None:
    def batches() -> Iterator[RecordBatch]:
        yield from parse_log(with_flipped_bit(idle_node.batch(("a", 1))), idle_node.batch(("c", 1)))
        raise OSError(5, "Input/output error")

    idle_node.start_election(batches=batches())
    if ends == "resigned":
        idle_node.resign()
    else:
        idle_node.runtime.tick(idle_node.clock.monotonic_ms())

    assert idle_node.read().value == "NOT_COORDINATOR"
    assert len(skipped_lines(caplog)) == 1

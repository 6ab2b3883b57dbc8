"""`CoordinatorLoader`: the log is replayed record by record, transactions and unknown records included."""

from typing import Any

import pytest

from ottla.wire.records import (
    ControlRecordType,
    build_batch,
    build_end_transaction_marker,
    parse_batch,
    read_records,
)

PRODUCER_ID = 9


def transactional(node: Any, *records: tuple[str, int]) -> bytes:
    batch = parse_batch(node.batch(*records))
    return build_batch(
        read_records(batch, size_bytes_max=1_000),
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(kind: ControlRecordType) -> bytes:
    return build_end_transaction_marker(
        kind, producer_id=PRODUCER_ID, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(ControlRecordType.COMMIT, 5, id="committed"),
        pytest.param(ControlRecordType.ABORT, 1, id="aborted"),
    ],
)
def test_transaction_counts_when_its_marker_commits_it(idle_node: Any, kind: ControlRecordType, value: int) -> None:
    idle_node.write_log(idle_node.batch(("a", 1)), transactional(idle_node, ("a", 5)), marker(kind))

    idle_node.elect()

    assert idle_node.read().value == f"a={value}"
    assert not idle_node.shard().pending


def test_open_transaction_stays_pending(idle_node: Any) -> None:
    idle_node.write_log(transactional(idle_node, ("a", 5)))

    idle_node.elect()

    assert idle_node.read().value == "a=0"
    assert idle_node.shard().pending == {PRODUCER_ID: {"a": 5}}


def test_last_record_of_a_key_wins_and_a_tombstone_removes_it(idle_node: Any) -> None:
    idle_node.write_log(idle_node.batch(("a", 1), ("d", 1), ("a", 2)), idle_node.batch(("d", None)))

    idle_node.elect()

    assert idle_node.shard().counts == {"a": 2}


def test_records_of_unknown_type_and_without_key_are_skipped(idle_node: Any) -> None:
    known, unknown = read_records(parse_batch(idle_node.batch(("a", 1), ("unknown", 2))), size_bytes_max=1_000)
    keyless = unknown._replace(key=None, offset=2)
    idle_node.write_log(build_batch([known, unknown, keyless]))

    idle_node.elect()

    assert idle_node.shard().counts == {"a": 1}


def test_contents_are_logged_at_the_end(idle_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    idle_node.write_log(idle_node.batch(("a", 1), ("d", 1)))

    idle_node.elect()

    assert f"__counters-{idle_node.partition_of('a')} is loaded: 2 counters" in caplog.text

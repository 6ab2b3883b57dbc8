"""Corrupt records of ``__transaction_state``: skipped, with the state as it was before; the id is served."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from corrupt_batches import change_bytes, each_corrupt_batch, parse_log
from ottla.errors import ErrorCode
from ottla.transactions.log import TRANSACTION_RECORD_SERDE, TransactionRecord, encode
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch
from transaction_node import ID, T0, TIMEOUT_MS, TransactionNode

ONGOING = TransactionMetadata(
    transactional_id=ID,
    producer_id=7_000,
    producer_epoch=0,
    timeout_ms=TIMEOUT_MS,
    state=TransactionState.ONGOING,
    partitions=frozenset({T0}),
    start_ms=0,
    updated_ms=0,
    client_transaction_version=2,
)
KEY, VALUE = encode(TransactionRecord(ID, ONGOING, 1))
assert VALUE is not None


def stored(metadata: TransactionMetadata) -> bytes:
    record = TransactionRecord(metadata.transactional_id, metadata, 1)
    return TRANSACTION_RECORD_SERDE.encode_batch([record], timestamp_ms=0)


def changed(**changes: Any) -> bytes:
    return stored(replace(ONGOING, **changes))


def raw(key: bytes, value: bytes | None) -> bytes:
    return build_batch([Record(0, 0, key, value)])


def load(node: TransactionNode, *batches: bytes) -> None:
    node.log.batches[0] = parse_log(*batches)
    node.restart(leader_epoch=1)


OTHER = replace(ONGOING, transactional_id="other", state=TransactionState.EMPTY, partitions=frozenset())


@each_corrupt_batch
def test_corrupt_batch_leaves_the_older_state(
    node: TransactionNode, caplog: pytest.LogCaptureFixture, corrupt: Callable[[bytes], bytes]
) -> None:
    load(node, stored(ONGOING), corrupt(changed(state=TransactionState.PREPARE_ABORT)), stored(OTHER))

    assert node.state() is TransactionState.ONGOING
    assert node.state("other") is TransactionState.EMPTY
    assert node.end().value.error_code == ErrorCode.NONE
    assert "__transaction_state-0: skipped 1 corrupt records or batches" in caplog.text
    assert "offset 1: " in caplog.text


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(raw(b"\0", VALUE), id="key-without-version"),
        pytest.param(raw(KEY[:-1], VALUE), id="truncated-key"),
        pytest.param(raw(KEY, b"\0"), id="value-without-version"),
        pytest.param(raw(KEY, b"\0\x09" + VALUE[2:]), id="unknown-version"),
        pytest.param(raw(KEY, VALUE[:-1]), id="truncated-value"),
        pytest.param(raw(KEY, VALUE + b"\0"), id="bytes-after-the-value"),
        pytest.param(raw(KEY, VALUE[:16] + b"\x09" + VALUE[17:]), id="unknown-state"),
        pytest.param(changed(state=TransactionState.PREPARE_EPOCH_FENCE), id="state-of-memory-only"),
        pytest.param(changed(producer_id=-7), id="negative-producer-id"),
        pytest.param(changed(next_producer_id=-7), id="negative-next-producer-id"),
        pytest.param(changed(producer_epoch=-7), id="negative-epoch"),
        pytest.param(changed(timeout_ms=-7), id="negative-time-out"),
        pytest.param(changed(partitions=frozenset({TopicPartition("t", -7)})), id="negative-partition"),
        pytest.param(changed(client_transaction_version=-7), id="negative-transaction-version"),
        pytest.param(changed(client_transaction_version=300), id="transaction-version-above-int8"),
    ],
)
def test_corrupt_record_leaves_the_older_state(
    node: TransactionNode, caplog: pytest.LogCaptureFixture, corrupt: bytes
) -> None:
    load(node, stored(ONGOING), corrupt, stored(OTHER))

    assert node.state() is TransactionState.ONGOING
    assert node.state("other") is TransactionState.EMPTY
    assert node.initialize("other").value.error_code == ErrorCode.NONE
    assert "__transaction_state-0: skipped 1 corrupt records or batches" in caplog.text
    assert "offset 1: " in caplog.text


def test_id_whose_only_record_is_corrupt_starts_again(node: TransactionNode) -> None:
    load(node, raw(KEY, b"\0\x09"))

    assert node.initialize().value.error_code == ErrorCode.NONE


def test_partition_that_does_not_exist_needs_no_marker(node: TransactionNode) -> None:
    gone = frozenset({TopicPartition("gone", 0)})
    load(node, changed(state=TransactionState.PREPARE_COMMIT, partitions=gone))

    assert node.state() is TransactionState.COMPLETE_COMMIT


def test_node_that_restarts_with_a_corrupt_record_serves_each_time(node: TransactionNode) -> None:
    load(node, raw(KEY, b"\0\x09"))

    for epoch in range(3):
        assert node.initialize().value.producer_epoch == epoch
        node.restart(leader_epoch=2 + epoch)


def random_records(source: random.Random) -> Iterator[bytes]:
    """Yield records with some random bytes, or truncated, in batches that are sound."""
    for number in range(300):
        metadata = replace(
            ONGOING,
            transactional_id=f"id-{number % 30}",
            state=source.choice([state for state in TransactionState if state is not TransactionState.DEAD]),
        )
        key, value = encode(TransactionRecord(metadata.transactional_id, metadata, number % 2))
        assert value is not None
        yield raw(*(change_bytes(source, part) for part in (key, value)))


@pytest.mark.parametrize("transaction_version", [0, 2])
@pytest.mark.parametrize("seed", range(10))
def test_partition_with_random_bytes_is_served(seed: int, transaction_version: int) -> None:
    node = TransactionNode(transaction_version)
    load(node, *random_records(random.Random(seed)), stored(OTHER))

    assert node.state("other") is TransactionState.EMPTY
    for number in range(30):
        node.initialize(f"id-{number}")
    for _ in range(3):
        node.advance(TIMEOUT_MS)
        for sent in node.peers.take():
            sent.request.encode(2)
            node.respond(sent)
    node.initialize("new")
    assert node.state("new") is TransactionState.EMPTY

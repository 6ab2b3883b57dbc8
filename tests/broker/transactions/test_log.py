"""Records of ``__transaction_state``: the bytes of JVM Kafka 4.3.1, and bytes that are no such record."""

from dataclasses import replace

import pytest

from ottla.errors import ProtocolError
from ottla.transactions.log import TransactionRecord, decode, encode, value_version
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import TopicPartition

KEY = bytes.fromhex("0000 0001 61")
EMPTY = TransactionMetadata(
    transactional_id="a", producer_id=741, producer_epoch=0, timeout_ms=60_000, updated_ms=0x1A20F3C5B6C
)
WRITTEN_BY_KAFKA = [
    pytest.param(
        0,
        EMPTY,
        "0000 00000000000002e5 0000 0000ea60 00 ffffffff 000001a20f3c5b6c ffffffffffffffff",
        id="version-0-empty",
    ),
    pytest.param(
        0,
        replace(EMPTY, state=TransactionState.COMPLETE_COMMIT, updated_ms=0x1A20F3C5B7A, start_ms=0x1A20F3C5B71),
        "0000 00000000000002e5 0000 0000ea60 04 00000000 000001a20f3c5b7a 000001a20f3c5b71",
        id="version-0-complete",
    ),
    pytest.param(
        1,
        replace(EMPTY, producer_id=742, previous_producer_id=742, updated_ms=0x1A20F3C5FB5),
        "0001 00000000000002e6 0000 0000ea60 00 00 000001a20f3c5fb5 ffffffffffffffff 01 00 08 00000000000002e6",
        id="version-1-empty",
    ),
    pytest.param(
        1,
        replace(
            EMPTY,
            producer_id=743,
            previous_producer_id=743,
            producer_epoch=4,
            state=TransactionState.COMPLETE_ABORT,
            updated_ms=0x1A20F3C6750,
            start_ms=0x1A20F3C674E,
            client_transaction_version=2,
        ),
        "0001 00000000000002e7 0004 0000ea60 05 01 000001a20f3c6750 000001a20f3c674e "
        "02 00 08 00000000000002e7 02 02 0002",
        id="version-1-complete-abort-of-an-epoch-per-transaction",
    ),
]


@pytest.mark.parametrize(("version", "metadata", "value"), WRITTEN_BY_KAFKA)
def test_records_are_those_of_kafka(version: int, metadata: TransactionMetadata, value: str) -> None:
    record = TransactionRecord("a", metadata, version)

    assert encode(record) == (KEY, bytes.fromhex(value))
    assert decode(KEY, bytes.fromhex(value)) == record


def test_partitions_are_grouped_by_topic_in_order() -> None:
    partitions = frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0)})
    record = TransactionRecord("a", replace(EMPTY, state=TransactionState.ONGOING, partitions=partitions), 0)

    _, value = encode(record)

    assert value is not None
    assert bytes.fromhex("00000002 0001 61 00000001 00000002 0001 62 00000002 00000000 00000001") in value
    assert decode(KEY, value) == record


def test_tombstone_has_no_value() -> None:
    assert encode(TransactionRecord("a", None)) == (KEY, None)
    assert decode(KEY, None) == TransactionRecord("a", None)


def test_key_of_an_unknown_version_is_skipped() -> None:
    assert decode(b"\x00\x01" + KEY[2:], b"anything") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"\x00", None, id="key-cut-off"),
        pytest.param(b"\x00\x00\x00\x09a", None, id="id-cut-off"),
        pytest.param(KEY, b"\x00", id="value-cut-off"),
        pytest.param(KEY, b"\x00\x02" + bytes(40), id="unknown-version-of-the-value"),
        pytest.param(KEY, bytes(2 + 8 + 2 + 4) + b"\x09" + bytes(20), id="unknown-state"),
    ],
)
def test_other_bytes_are_reported(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode(key, value)


def test_tagged_fields_are_written_from_transaction_version_1_on() -> None:
    assert [value_version(level) for level in range(3)] == [0, 1, 1]

"""Control records: keys and transaction markers have Kafka's bytes; unknown types are UNKNOWN, short ones rejected."""

import pytest

from ottla.errors import InvalidRecordError
from ottla.wire.records import (
    ControlRecordType,
    build_end_transaction_marker,
    control_key,
    end_transaction_value,
    parse_batch,
    parse_control_key,
    parse_end_transaction_value,
    read_records,
)


@pytest.mark.parametrize(
    ("record_type", "encoded"),
    [
        (ControlRecordType.ABORT, "00000000"),
        (ControlRecordType.COMMIT, "00000001"),
        (ControlRecordType.LEADER_CHANGE, "00000002"),
        (ControlRecordType.SNAPSHOT_HEADER, "00000003"),
        (ControlRecordType.SNAPSHOT_FOOTER, "00000004"),
        (ControlRecordType.KRAFT_VERSION, "00000005"),
        (ControlRecordType.KRAFT_VOTERS, "00000006"),
    ],
)
def test_keys_are_version_and_type(record_type: ControlRecordType, encoded: str) -> None:
    assert control_key(record_type).hex() == encoded
    assert parse_control_key(bytes.fromhex(encoded)) is record_type


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param("00000007", id="newer-type"),
        pytest.param("00007fff", id="far-newer-type"),
        pytest.param("0000ffff", id="unknown-itself"),
    ],
)
def test_unknown_control_types_are_unknown(encoded: str) -> None:
    assert parse_control_key(bytes.fromhex(encoded)) is ControlRecordType.UNKNOWN


def test_newer_versions_may_be_longer() -> None:
    assert parse_control_key(bytes.fromhex("0001000199")) is ControlRecordType.COMMIT
    assert parse_end_transaction_value(bytes.fromhex("00010000000599")) == 5


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_keys_without_a_type_are_rejected(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError, match="control record's key"):
        parse_control_key(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_values_without_a_coordinator_epoch_are_rejected(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError, match="marker's value"):
        parse_end_transaction_value(value)


def test_marker_values_are_version_and_coordinator_epoch() -> None:
    assert end_transaction_value(258).hex() == "000000000102"


def test_transaction_marker_is_a_control_batch_of_one_record() -> None:
    data = build_end_transaction_marker(
        ControlRecordType.COMMIT,
        producer_id=70,
        producer_epoch=3,
        coordinator_epoch=11,
        timestamp_ms=1_000,
        base_offset=600,
        leader_epoch=4,
    )

    batch = parse_batch(data)
    batch.check_crc()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (70, 3, -1)
    assert (batch.base_offset, batch.leader_epoch) == (600, 4)
    (record,) = read_records(batch, size_bytes_max=100)
    assert (record.offset, record.timestamp_ms) == (600, 1_000)
    assert parse_control_key(record.key) is ControlRecordType.COMMIT
    assert parse_end_transaction_value(record.value) == 11

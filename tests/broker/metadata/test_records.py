"""The frame of a metadata record, in the bytes that Kafka 4.3.1 wrote."""

import pytest

from ottla.errors import ProtocolError
from ottla.metadata.records import RECORD_TYPES, MetadataRecord, MetadataRecordSerde
from ottla.wire.messages import metadata_log as log

SERDE = MetadataRecordSerde()

RECORDED = [
    (log.BeginTransactionRecord(name="Bootstrap records"), "01170001001212426f6f747374726170207265636f726473"),
    (
        log.FeatureLevelRecord(name="metadata.version", feature_level=30),
        "010c00116d657461646174612e76657273696f6e001e00",
    ),
    (
        log.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        "0104000401146d696e2e696e73796e632e7265706c696361730231" + "00",
    ),
    (log.EndTransactionRecord(), "01180000"),
    (log.NoOpRecord(), "01140000"),
]


@pytest.mark.parametrize(("message", "data"), RECORDED, ids=lambda value: type(value).__name__)
def test_records_have_kafka_s_bytes(message: log.Message, data: str) -> None:
    record = MetadataRecord(message, 0)

    assert SERDE.encode(record).hex() == data
    assert SERDE.decode(bytes.fromhex(data)) == record


@pytest.mark.parametrize(
    ("record_type", "version"),
    [(each, version) for each in RECORD_TYPES.values() for version in each.versions],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_record_round_trips_in_every_version(record_type: type[log.Message], version: int) -> None:
    record = MetadataRecord(record_type(), version)

    assert SERDE.decode(SERDE.encode(record)) == record


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param("", "starts with b''", id="empty"),
        pytest.param("020c00", "its frame version is 1", id="another-frame"),
        pytest.param("017f00", "key 127", id="unknown-record"),
        pytest.param("010c01", "in version 1 is newer", id="unknown-version"),
        pytest.param("010c00116d65", "FeatureLevelRecord v0", id="cut-off"),
        pytest.param("0114000000", "bytes too many", id="too-long"),
    ],
)
def test_invalid_record_bytes_are_rejected(data: str, what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        SERDE.decode(bytes.fromhex(data))

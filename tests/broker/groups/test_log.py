"""Records of __consumer_offsets: the bytes are Kafka's. Those given in hexadecimal were written by Kafka 4.3.1."""

import pytest

from ottla.errors import ProtocolError
from ottla.groups.log import (
    GROUP_RECORD_SERDE,
    GroupRecord,
    decode,
    encode,
    group_metadata_record,
    offset_commit_record,
)
from ottla.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.messages.share_group_log import ShareGroupMetadataKey, ShareGroupMetadataValue
from ottla.wire.records import parse_batch, read_records

TOPIC_ID = bytes.fromhex("e829c3e0a36b4462b954b9cf4168a4d9")


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        pytest.param(
            offset_commit_record("ret", "t", 0, None), "0001 0003 726574 0001 74 00000000", None, id="offset-tombstone"
        ),
        pytest.param(
            offset_commit_record(
                "ret", "t", 0, OffsetCommitValue(offset=1, commit_timestamp=0x1A1FD3FD0E2, topic_id=TOPIC_ID)
            ),
            "0001 0003 726574 0001 74 00000000",
            f"0004 0000000000000001 ffffffff 01 000001a1fd3fd0e2 01 00 10 {TOPIC_ID.hex()}",
            id="offset-with-topic-id",
        ),
        pytest.param(
            offset_commit_record(
                "ret", "t", 0, OffsetCommitValue(offset=5, metadata="m", commit_timestamp=2, expire_timestamp=1002)
            ),
            "0001 0003 726574 0001 74 00000000",
            "0001 0000000000000005 0001 6d 0000000000000002 00000000000003ea",
            id="offset-with-a-retention-of-its-own",
        ),
        pytest.param(
            group_metadata_record("g", GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=7)),
            "0002 0001 67",
            "0003 0000 00000000 ffff ffff 0000000000000007 00000000",
            id="new-group",
        ),
    ],
)
def test_record_has_kafkas_bytes(record: GroupRecord, key: str, value: str | None) -> None:
    expected = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))

    assert encode(record) == expected
    assert decode(*expected) == record


def test_group_record_preserves_all_properties_of_members() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=[member])

    assert decode(*encode(group_metadata_record("g", value))) == GroupRecord(GroupMetadataKey(group="g"), value)


@pytest.mark.parametrize("version", range(5))
def test_older_versions_of_offsets_are_decoded(version: int) -> None:
    key = b"\0\1" + OffsetCommitKey(group="g", topic="t", partition=2).encode(0)
    value = version.to_bytes(2, "big") + OffsetCommitValue(offset=9, metadata="x", commit_timestamp=4).encode(version)

    record = decode(key, value)

    assert record is not None
    assert isinstance(record.value, OffsetCommitValue)
    assert (record.value.offset, record.value.metadata, record.value.expire_timestamp) == (9, "x", -1)


def test_oldest_key_type_is_decoded_as_the_newer_one() -> None:
    old = b"\0\0" + OffsetCommitKey(group="g", topic="t", partition=2).encode(0)
    value = b"\0\0" + OffsetCommitValue(offset=9).encode(0)

    record = decode(old, value)

    assert record == offset_commit_record("g", "t", 2, OffsetCommitValue(offset=9))


def test_records_of_newer_group_types_are_skipped() -> None:
    of_a_later_release = b"\0\x7f" + ShareGroupMetadataKey(group_id="g").encode(0)

    assert decode(of_a_later_release, b"\0\0" + ShareGroupMetadataValue(epoch=1).encode(0)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"", None, id="no-type"),
        pytest.param(b"\0\2\0\5g", None, id="cut-key"),
        pytest.param(b"\0\2\0\1g!", None, id="key-too-long"),
        pytest.param(b"\0\2\0\1g", b"", id="no-version"),
        pytest.param(b"\0\2\0\1g", b"\0\5", id="unknown-version"),
        pytest.param(b"\0\2\0\1g", b"\0\3\0", id="cut-value"),
    ],
)
def test_corrupt_records_are_rejected(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode(key, value)


def test_batch_contains_all_records_with_one_timestamp() -> None:
    records = [offset_commit_record("g", "t", n, OffsetCommitValue(offset=n)) for n in range(3)]

    batch = parse_batch(GROUP_RECORD_SERDE.encode_batch(records, timestamp_ms=1234))

    batch.check_crc()
    read = read_records(batch, size_bytes_max=10_000)
    assert [decode(record.key or b"", record.value) for record in read] == records
    assert {record.timestamp_ms for record in read} == {1234}
    assert not batch.is_compressed

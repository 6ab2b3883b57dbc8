"""The dump of a log's files has the lines of Kafka's own tool."""

from collections.abc import Callable
from struct import pack
from typing import Any
from zlib import crc32

import pytest

from ottla.errors import StorageError
from ottla.log.dump import decode_cluster_metadata, explain_file
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import Uuid
from ottla.wire.messages.control_records import KRaftVersionRecord, LeaderChangeMessage, SnapshotHeaderRecord
from ottla.wire.messages.metadata_log import FeatureLevelRecord, TopicRecord
from ottla.wire.records import (
    Compression,
    ControlRecordType,
    Record,
    TimestampType,
    build_batch,
    build_end_transaction_marker,
    control_key,
)

NOW_MS = 1_700_000_000_000

MakeBatch = Callable[..., bytearray]


def explained(disk: SimulatedDisk, name: str, data: bytes, **options: Any) -> list[str]:
    """Write a file and return the lines of its dump without the first, which names it."""
    path = f"/{name}"
    disk.open(path, create=True).pwritev([data], 0)
    first, *lines = explain_file(disk, path, **options)
    assert first == f"Dumping {path}"
    return lines


def test_batches_and_records_are_lines(disk: SimulatedDisk) -> None:
    plain = build_batch([Record(0, NOW_MS, None, None, (("h1", b"a"), ("h2", None))), Record(1, NOW_MS + 5, b"", b"x")])
    zipped = build_batch(
        [Record(2, NOW_MS, b"\xff\xfe", "café".encode())],
        base_offset=2,
        leader_epoch=4,
        compression=Compression.LZ4,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
    )
    lines = explained(disk, "00000000000000000000.log", plain + zipped)

    crcs = [int.from_bytes(batch[17:21]) for batch in (plain, zipped)]
    assert lines == [
        "Log starting offset: 0",
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
        "partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: {NOW_MS + 5} size: 85 magic: 2 compresscodec: none crc: {crcs[0]} isvalid: true",
        f"| offset: 0 CreateTime: {NOW_MS} keySize: -1 valueSize: -1 sequence: -1 headerKeys: [h1,h2]",
        f"| offset: 1 CreateTime: {NOW_MS + 5} keySize: 0 valueSize: 1 sequence: -1 headerKeys: [] key:  payload: x",
        "baseOffset: 2 lastOffset: 2 count: 1 baseSequence: 9 lastSequence: 9 producerId: 7 producerEpoch: 1 "
        "partitionLeaderEpoch: 4 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 85 CreateTime: {NOW_MS} size: {len(zipped)} magic: 2 compresscodec: lz4 crc: {crcs[1]} "
        "isvalid: true",
        f"| offset: 2 CreateTime: {NOW_MS} keySize: 2 valueSize: 5 sequence: 9 headerKeys: [] key: \ufffd\ufffd "
        "payload: café",
    ]


def test_without_data_only_batches_are_lines(disk: SimulatedDisk, make_batch: MakeBatch) -> None:
    lines = explained(disk, "00000000000000000000.log", make_batch(5), print_data=False)

    assert len(lines) == 2


def test_append_time_and_delete_horizon_are_dumped(disk: SimulatedDisk) -> None:
    stamped = build_batch(
        [Record(0, 5, b"k", None)], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS
    )
    horizon = build_batch([Record(1, 5, b"k", None)], base_offset=1, delete_horizon_ms=NOW_MS)

    lines = explained(disk, "00000000000000000000.log", stamped + horizon)

    assert f"LogAppendTime: {NOW_MS} size" in lines[1]
    assert lines[2].startswith(f"| offset: 0 LogAppendTime: {NOW_MS} keySize: 1")
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS}]" in lines[3]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        pytest.param(
            ControlRecordType.LEADER_CHANGE,
            LeaderChangeMessage(version=0, leader_id=3).encode(0),
            ' LeaderChange: {"version":0,"leaderId":3,"voters":[],"grantingVoters":[]}',
            id="leader-change",
        ),
        pytest.param(
            ControlRecordType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=7).encode(0),
            ' SnapshotHeader {"version":0,"lastContainedLogTimestamp":7}',
            id="snapshot-header",
        ),
        pytest.param(
            ControlRecordType.KRAFT_VERSION,
            KRaftVersionRecord(kraft_version=1).encode(0),
            ' KRaftVersion {"version":0,"kRaftVersion":1}',
            id="kraft-version",
        ),
        pytest.param(ControlRecordType.LEADER_CHANGE, b"\0\0\xff", " LeaderChange: cannot be read: ", id="corrupt"),
    ],
)
def test_control_records_are_read(disk: SimulatedDisk, kind: ControlRecordType, value: bytes, words: str) -> None:
    batch = build_batch([Record(0, NOW_MS, control_key(kind), value)], is_control=True)

    assert words in explained(disk, "00000000000000000000.log", batch)[2]


def test_transaction_markers_are_read(disk: SimulatedDisk) -> None:
    batch = build_end_transaction_marker(
        ControlRecordType.ABORT, producer_id=8, producer_epoch=1, coordinator_epoch=3, timestamp_ms=NOW_MS
    )

    assert explained(disk, "00000000000000000000.log", batch)[2].endswith(" endTxnMarker: ABORT coordinatorEpoch: 3")


def test_metadata_records_are_json(disk: SimulatedDisk) -> None:
    topic_id = Uuid(bytes(range(16)))
    values = [
        bytes((1, 12, 0)) + FeatureLevelRecord(name="metadata.version", feature_level=30).encode(0),
        bytes((1, 2, 0)) + TopicRecord(name="t", topic_id=topic_id).encode(0),
        b"\x01\x63\x00",
    ]
    batch = build_batch([Record(index, NOW_MS, None, value) for index, value in enumerate(values)])

    _, title, *lines = explain_file(
        disk_with(disk, "/bootstrap.checkpoint", batch), "/bootstrap.checkpoint", decoder=decode_cluster_metadata
    )

    assert title == "KRaft bootstrap snapshot"
    assert lines[1].endswith(
        'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}'
    )
    assert lines[2].endswith('"data":{"name":"t","topicId":"AAECAwQFBgcICQoLDA0ODw"}}')
    assert "payload: Error at 2, skipping." in lines[3]


def disk_with(disk: SimulatedDisk, path: str, data: bytes) -> SimulatedDisk:
    disk.open(path, create=True).pwritev([data], 0)
    return disk


def test_title_of_a_snapshot_has_its_end_offset_and_epoch(disk: SimulatedDisk) -> None:
    lines = explained(disk, "00000000000000000042-0000000007.checkpoint", b"")

    assert lines == ["Snapshot end offset: 42, epoch: 7"]


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        pytest.param(b"garbage" * 20, "Found 140 invalid bytes at the end of 00000000000000000000.log", id="garbage"),
        pytest.param(bytes(5), "Found 5 invalid bytes at the end of 00000000000000000000.log", id="a-few-zeros"),
    ],
)
def test_invalid_bytes_at_the_end_are_counted(
    disk: SimulatedDisk, make_batch: MakeBatch, tail: bytes, words: str
) -> None:
    assert explained(disk, "00000000000000000000.log", bytes(make_batch(1)) + tail)[-1] == words


def test_wrong_crc_is_dumped_as_invalid(disk: SimulatedDisk, make_batch: MakeBatch) -> None:
    data = make_batch(1)
    data[17] ^= 1

    assert explained(disk, "00000000000000000000.log", data)[1].endswith("isvalid: false")


def test_decreasing_offsets_are_reported(disk: SimulatedDisk, make_batch: MakeBatch) -> None:
    data = make_batch(1, base_offset=12) + make_batch(1, base_offset=11)

    lines = explained(disk, "00000000000000000010.log", data)

    assert lines[-2:] == ["Non-consecutive offsets in /00000000000000000010.log", "  12 is followed by 11"]


def test_message_sets_of_magic_1_are_dumped(disk: SimulatedDisk) -> None:
    body = pack(">bbqi3si5s", 1, 0, NOW_MS, 3, b"key", 5, b"value")
    data = pack(">qiI", 4, 4 + len(body), crc32(body)) + body

    lines = explained(disk, "00000000000000000004.log", data)

    assert lines[1] == (
        f"offset: 4 position: 0 CreateTime: {NOW_MS} size: {len(data)} magic: 1 compresscodec: none "
        f"crc: {crc32(body)} isvalid: true"
    )
    assert lines[2] == f"| offset: 4 CreateTime: {NOW_MS} keySize: 3 valueSize: 5 key: key payload: value"


def test_indexes_are_compared_with_the_log(disk: SimulatedDisk, make_batch: MakeBatch) -> None:
    size_bytes = len(make_batch(2))
    disk_with(disk, "/00000000000000000010.log", bytes(make_batch(2, base_offset=10) + make_batch(2, base_offset=12)))

    good = explained(disk, "00000000000000000010.index", pack(">iiii", 1, 0, 3, size_bytes))
    times = explained(disk, "00000000000000000010.timeindex", pack(">qi", NOW_MS + 1, 3))

    assert good == ["offset: 11 position: 0", f"offset: 13 position: {size_bytes}"]
    assert times == [f"timestamp: {NOW_MS + 1} offset: 13"]


def test_index_that_contradicts_the_log_is_reported(disk: SimulatedDisk, make_batch: MakeBatch) -> None:
    disk_with(disk, "/00000000000000000000.log", bytes(make_batch(2)))

    offsets = explained(disk, "00000000000000000000.index", pack(">iiii", 0, 0, 9, 5))
    times = explained(disk, "00000000000000000000.timeindex", pack(">qiqiqi", 9, 1, 9, 1, 8, 7))

    assert offsets[2:] == [
        "Mismatches in :/00000000000000000000.index",
        "  Index offset: 0, log offset: 1",
        "  Index offset: 9, log offset: -1",
    ]
    assert times[3:] == [
        "Found timestamp mismatch in :/00000000000000000000.timeindex",
        f"  Index timestamp: 9, log timestamp: {NOW_MS + 1}",
        f"  Index timestamp: 9, log timestamp: {NOW_MS + 1}",
        "Found out of order timestamp in :/00000000000000000000.timeindex",
        "  Index timestamp: 9, Previously indexed timestamp: 9",
        "  Index timestamp: 8, Previously indexed timestamp: 9",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 7, found log offset: -1",
    ]


def test_empty_index_is_reported(disk: SimulatedDisk) -> None:
    disk_with(disk, "/00000000000000000000.log", b"")

    assert explained(disk, "00000000000000000000.index", b"") == ["/00000000000000000000.index is empty."]


def test_checkpoints_are_dumped(disk: SimulatedDisk) -> None:
    assert explained(disk, "leader-epoch-checkpoint", b"0\n1\n3 17\n") == ["epoch: 3 startOffset: 17"]
    assert explained(disk, "recovery-point-offset-checkpoint", b"0\n1\nt 2 17\n") == [
        "topic: t partition: 2 offset: 17"
    ]
    with pytest.raises(StorageError):
        explained(disk, "log-start-offset-checkpoint", b"garbage")


def test_corrupt_snapshot_is_reported(disk: SimulatedDisk) -> None:
    assert "snapshot has at least" in explained(disk, "00000000000000000002.snapshot", b"\0")[0]


def test_dump_names_an_unknown_file_that_it_ignores(disk: SimulatedDisk) -> None:
    assert explained(disk, "partition.metadata", b"") == ["Ignoring unknown file /partition.metadata"]

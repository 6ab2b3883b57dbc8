"""Kafka's own kafka-dump-log reads our files: it prints the same lines as our tool and finds no error."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.dump import explain_file
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.runtime.disk import OsDisk
from ottla.types import TopicPartition
from ottla.wire.records import Compression, ControlRecordType, build_end_transaction_marker

NOW_MS = 1_700_000_000_000
KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KAFKA_LIBS is None, reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars"),
]

MakeBatch = Callable[..., bytearray]


@pytest.fixture
def directory(tmp_path: Path, clock: Any, make_batch: MakeBatch) -> Path:
    """A log with segments, epochs, compressed batches, producers, an aborted transaction and an open one."""
    disk = OsDisk(lambda function: function())
    log = PartitionLog.open(
        disk=disk,
        directory=str(tmp_path / "t-0"),
        topic_partition=TopicPartition("t", 0),
        config=LogConfig(segment_bytes=60_000),
        clock=clock,
    )
    for index in range(150):
        codec = list(Compression)[index % 5]
        batch = make_batch(
            3,
            size_bytes=300,
            timestamp_ms=NOW_MS - 1000 + index,
            compression=codec,
            producer_id=7,
            producer_epoch=0,
            base_sequence=3 * index,
        )
        log.append_as_leader(batch, leader_epoch=index // 50, now_ms=NOW_MS)
    transactional = {"producer_id": 8, "producer_epoch": 0, "is_transactional": True}
    log.append_as_leader(make_batch(2, base_sequence=0, **transactional), leader_epoch=3, now_ms=NOW_MS)
    marker = build_end_transaction_marker(
        ControlRecordType.ABORT, producer_id=8, producer_epoch=0, coordinator_epoch=1, timestamp_ms=NOW_MS
    )
    log.append_as_leader(marker, leader_epoch=3, origin=AppendOrigin.COORDINATOR, now_ms=NOW_MS)
    log.append_as_leader(make_batch(2, base_sequence=2, **transactional), leader_epoch=3, now_ms=NOW_MS)
    log.close()
    disk.close()
    return tmp_path / "t-0"


def kafka_dump_log(files: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*"]
    arguments = ["org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=120)


def test_kafka_dump_log_prints_the_same_lines(directory: Path) -> None:
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(path for path in directory.iterdir() if path.suffix in kinds)
    assert {path.suffix for path in files} == set(kinds)
    disk = OsDisk(lambda function: function())

    theirs = kafka_dump_log(files, "--print-data-log").stdout.splitlines()

    ours = [line for path in files for line in explain_file(disk, str(path))]
    # It calls the first offset of any segment but the first non-consecutive: -1 is followed by it.
    theirs = [line for line in theirs if not line.startswith(("Non-consecutive offsets", "  -1 is followed by"))]
    assert theirs == ours


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_kafka_dump_log_finds_no_error_in_indexes(directory: Path, option: str) -> None:
    files = sorted([*directory.glob("*.index"), *directory.glob("*.timeindex")])

    lines = kafka_dump_log(files, option).stdout.splitlines()

    complaints = [line for line in lines if not line.startswith("Dumping ") and "passed sanity check" not in line]
    assert complaints == []


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1]), id="last-entry-cut"),
        pytest.param(lambda path: path.write_bytes(b"\xff" * path.stat().st_size), id="all-bits-set"),
    ],
)
def test_kafka_dump_log_finds_no_error_in_rebuilt_indexes(
    directory: Path, clock: Any, corrupt: Callable[[Path], object]
) -> None:
    files = sorted([*directory.glob("*.index"), *directory.glob("*.timeindex")])
    before = [path.read_bytes() for path in files]
    for path, data in zip(files, before, strict=True):
        if data:
            corrupt(path)
    disk = OsDisk(lambda function: function())

    PartitionLog.open(
        disk=disk,
        directory=str(directory),
        topic_partition=TopicPartition("t", 0),
        config=LogConfig(segment_bytes=60_000, max_message_bytes=4096),
        clock=clock,
        was_clean_shutdown=True,
    ).close()
    disk.close()

    assert [path.read_bytes() for path in files] == before
    lines = kafka_dump_log(files, "--index-sanity-check").stdout.splitlines()
    assert [line for line in lines if not line.startswith("Dumping ") and "passed sanity check" not in line] == []

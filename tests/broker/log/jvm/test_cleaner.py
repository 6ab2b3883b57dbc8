"""Kafka's own cleaner and ours leave the same bytes of the same log directory.

Runs if ``OTTLA_KAFKA_LIBS`` names a folder with Kafka's jars, and a JDK can compile one small file.
"""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from compacted_log import DIRECTORY, CompactedLog
from ottla.log.cleaner.dirty_log import measure
from ottla.wire.records import Compression, Record, RecordBatch, iterate_batches, read_records

KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        KAFKA_LIBS is None or shutil.which("javac") is None,
        reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars, or there is no JDK",
    ),
]

Segments = dict[str, list[tuple[object, ...]]]

SEGMENT_BYTES = 2_000
MAP_BYTES = 24 * 4_000
CODECS = [*[Compression.NONE] * 4, *Compression]


def append_some(log: CompactedLog, source: random.Random, count: int) -> None:
    """Append batches, tombstones and transactions of three producers; end all transactions."""
    open_producers: dict[int, None] = {}
    for _ in range(count):
        log.clock.now_ms += source.randrange(50)
        producer_id = source.choice([1, 2, 3, None])
        if producer_id in open_producers and source.random() < 0.3:
            log.end_transaction(producer_id, is_aborted=source.random() < 0.5)
            del open_producers[producer_id]
            continue
        options = {} if producer_id is None else {"producer_id": producer_id}
        if producer_id in (2, 3):
            options["is_transactional"] = True
            open_producers[producer_id] = None
        entries = [
            (b"key-%d" % source.randrange(30), source.choice([None, *[b"v" * source.randrange(60)] * 4]))
            for _ in range(source.randrange(1, 5))
        ]
        log.append(*entries, compression=source.choice(CODECS), **options)
    for producer_id in open_producers:
        log.end_transaction(producer_id, is_aborted=source.random() < 0.5)
    log.roll()


def export(log: CompactedLog, directory: Path) -> None:
    """Copy the log's files as they are on the simulated disk."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for path in log.disk.paths():
        if path.startswith(DIRECTORY + "/") and not path.endswith(".deleted"):
            (directory / path.rpartition("/")[2]).write_bytes(log.disk.contents(path))


def kafka_clean(log: CompactedLog, directory: Path) -> int:
    dirty = measure(log.log, log.clock.now_ms)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{KAFKA_LIBS}/*"]
    arguments = [
        directory,
        dirty.first_dirty_offset,
        dirty.uncleanable_offset,
        log.clock.now_ms,
        SEGMENT_BYTES,
        log.config.delete_retention_ms,
        MAP_BYTES,
    ]
    source = Path(__file__).with_name("KafkaCleaner.java")
    ran = subprocess.run(
        [*command, str(source), *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout.splitlines()[-1])


def described(batch: RecordBatch) -> tuple[object, ...]:
    """Return the header and the records; of an uncompressed batch also the bytes."""
    records: list[Record] = read_records(batch, size_bytes_max=1 << 20)
    header = (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.attributes,
        batch.base_timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )
    return header, records, b"" if batch.is_compressed else bytes(batch.data)


def segments_in(directory: Path) -> Segments:
    return {
        path.name: [described(batch) for batch in iterate_batches(path.read_bytes(), strict=True)]
        for path in sorted(directory.glob("*.log"))
    }


def without_covers(ours: Segments, theirs: Segments) -> Segments:
    """Drop the empty batches at the ends of our segments that make recovery remove emptied ones after them."""
    return {
        name: batches[:-1] if len(batches) == len(theirs.get(name, ())) + 1 and not batches[-1][1] else batches
        for name, batches in ours.items()
    }


def transactions_in(directory: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in sorted(directory.glob("*.txnindex"))}
    return {name: data for name, data in files.items() if data}


@pytest.mark.parametrize("seed", range(3))
def test_three_cleanings_of_one_log(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    log = CompactedLog()
    log.clock.now_ms = int(time.time() * 1000)  # Kafka's producers expire by the clock
    log.update(segment_bytes=SEGMENT_BYTES)
    theirs, ours = tmp_path / "theirs" / "topic-0", tmp_path / "ours"
    for _ in range(3):
        append_some(log, source, 120)
        export(log, theirs)

        their_end_offset = kafka_clean(log, theirs)
        log.clean()

        export(log, ours)
        assert log.log.first_dirty_offset == their_end_offset
        assert transactions_in(ours) == transactions_in(theirs)
        assert without_covers(segments_in(ours), segments_in(theirs)) == segments_in(theirs)
        log.clock.now_ms += log.config.delete_retention_ms

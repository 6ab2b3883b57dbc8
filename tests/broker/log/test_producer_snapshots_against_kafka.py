"""Snapshots of producers are exchanged with Kafka's own reader and writer.

Runs if ``OTTLA_KAFKA_LIBS`` names a folder with Kafka's jars, and a JDK can compile one small file.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.log.producer_state import BatchMetadata, ProducerStateEntry, format_snapshot, parse_snapshot

KAFKA_LIBS = os.environ.get("OTTLA_KAFKA_LIBS")
pytestmark = pytest.mark.skipif(
    KAFKA_LIBS is None or shutil.which("javac") is None,
    reason="OTTLA_KAFKA_LIBS names no folder of Kafka's jars, or there is no JDK",
)

END_OFFSET, LATER_OFFSET = 40, 41
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


def batch(last_sequence: int, last_offset: int, time_ms: int) -> BatchMetadata:
    return BatchMetadata(last_sequence, last_offset, 1, time_ms)


IN_A_TRANSACTION = ProducerStateEntry(
    7, 3, 2, NOW_MS, 25, [batch(2 * number + 1, 2 * number + 21, NOW_MS - 5 + number) for number in range(1, 6)]
)
BEHIND_A_MARKER = ProducerStateEntry(8, 0, 5, NOW_MS, -1, [batch(1, 5, NOW_MS - 9), batch(3, 9, NOW_MS - 8)])
ONLY_A_MARKER = ProducerStateEntry(9, 1, 5, NOW_MS)
LATELY_AGAIN = ProducerStateEntry(10, 0, -1, NOW_MS, -1, [batch(1, 1, NOW_MS - 30 * HOUR_MS), batch(3, 39, NOW_MS)])
LONG_GONE = ProducerStateEntry(11, 0, -1, NOW_MS - 25 * HOUR_MS, -1, [batch(1, 3, NOW_MS - 25 * HOUR_MS)])


def test_kafka_loads_the_newest_batch_of_each_producer_and_we_read_what_it_writes(tmp_path: Path) -> None:
    known = [IN_A_TRANSACTION, BEHIND_A_MARKER, ONLY_A_MARKER, LATELY_AGAIN, LONG_GONE]
    (tmp_path / f"{END_OFFSET:020}.snapshot").write_bytes(format_snapshot(known))

    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{KAFKA_LIBS}/*",
        str(Path(__file__).with_name("KafkaProducerState.java")),
    ]
    arguments = [str(tmp_path), str(END_OFFSET), str(NOW_MS), str(LATER_OFFSET)]
    ran = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True, timeout=120)

    assert ran.stdout.splitlines() == [
        f"7/3 coordinator 2 transaction 25 time {NOW_MS}: 10-11@31",
        f"8/0 coordinator 5 transaction -1 time {NOW_MS}: 2-3@9",
        f"9/1 coordinator 5 transaction -1 time {NOW_MS}:",
        f"10/0 coordinator -1 transaction -1 time {NOW_MS}: 2-3@39",
        "undecided from 25",
    ]
    theirs = parse_snapshot((tmp_path / f"{LATER_OFFSET:020}.snapshot").read_bytes(), "theirs")
    assert [repr(entry) for entry in sorted(theirs, key=lambda entry: entry.producer_id)] == [
        repr(ProducerStateEntry(7, 3, 2, NOW_MS, 25, IN_A_TRANSACTION.batches[-1:])),
        repr(ProducerStateEntry(8, 0, 5, NOW_MS, -1, [batch(3, 9, NOW_MS)])),
        repr(ONLY_A_MARKER),
        repr(ProducerStateEntry(10, 0, -1, NOW_MS, -1, [batch(3, 39, NOW_MS)])),
    ]

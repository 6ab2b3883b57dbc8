"""Share state with Kafka's own classes and tools: merges of delivery states, and records of ``__share_group_state``."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from jvm_kafka import run_java

from ottla.share_state.batches import Batches, combine
from ottla.share_state.log import ShareSnapshot, ShareState, ShareUpdate, encode
from ottla.share_state.persister import SharePartitionKey, StateBatch
from ottla.types import Uuid
from ottla.wire.records import RecordBatchBuilder

CASES: Final = 5_000
OFFSET_MAX: Final = 60
TOPIC_ID: Final = Uuid(bytes(range(16)))


def random_batches(source: random.Random) -> list[StateBatch]:
    batches = []
    for _ in range(source.randrange(8)):
        first = source.randrange(OFFSET_MAX)
        state, count = source.choice((0, 2, 4)), source.randrange(1, 4)
        batches.append(StateBatch(first, first + source.randrange(12), state, count))
    return batches


def to_text(batches: list[StateBatch] | Batches) -> str:
    return ",".join(f"{it[0]}-{it[1]}:{it[2]}:{it[3]}" for it in batches) or "-"


def parse(text: str) -> list[StateBatch]:
    if text == "-":
        return []
    parts = (batch.replace(":", "-").split("-") for batch in text.split(","))
    return [StateBatch(*map(int, fields)) for fields in parts]


def test_merges_are_those_of_kafka() -> None:
    source = random.Random(932)
    cases = [
        (source.randrange(-1, OFFSET_MAX), combine((), random_batches(source), -1), random_batches(source))
        for _ in range(CASES)
    ]

    theirs = run_java(
        "CombineStateBatches.java",
        (f"{start_offset} {to_text(stored)} {to_text(written)}" for start_offset, stored, written in cases),
    )

    assert len(theirs) == CASES
    for (start_offset, stored, written), kafka in zip(cases, theirs, strict=True):
        # Kafka leaves a few batches apart that ours joins: see `ottla.share_state.batches`.
        assert combine(stored, written, start_offset) == combine((), parse(kafka), -1), (start_offset, stored, written)


def test_records_are_read_by_kafka(kafka_tool: Callable[..., Any], tmp_path: Path) -> None:
    key = SharePartitionKey("café", TOPIC_ID, 7)
    state = ShareState(3, 4, 5, 100, 6, 1_700_000_000_000, 1_700_000_000_001, (StateBatch(100, 109, 2, 1),))
    builder = RecordBatchBuilder()
    for record in (ShareSnapshot(key, state), ShareUpdate(key, 3, 5, -1, -1, state.batches), ShareSnapshot(key, None)):
        record_key, value = encode(record)
        builder.append(timestamp_ms=0, key=record_key, value=value)
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(builder.build())

    dumped = kafka_tool("kafka-dump-log", "--share-group-state-decoder", "--files", str(segment))

    lines = [line for line in dumped.lines if " payload: " in line]
    assert len(lines) == 3, dumped.stdout
    for fact in (
        '"groupId":"café"',
        '"partition":7',
        '"snapshotEpoch":3',
        '"stateEpoch":4',
        '"deliveryCompleteCount":6',
    ):
        assert fact in lines[0]
    assert '"stateBatches":[{"firstOffset":100,"lastOffset":109,"deliveryState":2,"deliveryCount":1}]' in lines[1]
    assert '"startOffset":-1' in lines[1]

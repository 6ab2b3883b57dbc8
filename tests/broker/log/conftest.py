"""What the tests of the log share: a clock that stands still, a disk in memory, batches, and an open log."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.simulator.disk import SimulatedDisk
from ottla.types import TopicPartition
from ottla.wire.records import Compression, Record, build_batch

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
TOPIC_PARTITION = TopicPartition("topic", 0)


@dataclass
class ManualClock:
    now_ms: int = NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms - NOW_MS

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> int:
        self.now_ms += by_ms
        return self.now_ms


MakeBatch = Callable[..., bytearray]
OpenLog = Callable[..., PartitionLog]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def make_batch() -> MakeBatch:
    """``make_batch(count, value_size_bytes, ...)``: a batch as a producer sends it, one ms between its records."""

    def make(
        count: int = 1,
        *,
        size_bytes: int = 100,
        timestamp_ms: int = NOW_MS,
        key: bytes | None = b"key",
        compression: Compression = Compression.NONE,
        base_offset: int = 0,
        step_ms: int = 1,
        **options: Any,
    ) -> bytearray:
        records = [
            Record(base_offset + index, timestamp_ms + index * step_ms, key, bytes([index % 256]) * size_bytes)
            for index in range(count)
        ]
        return bytearray(build_batch(records, base_offset=base_offset, compression=compression, **options))

    return make


@pytest.fixture
def open_log(disk: SimulatedDisk, clock: ManualClock) -> OpenLog:
    """``open_log(segment_bytes=..., was_clean_shutdown=...)``: the log in the directory, with any `LogConfig` field."""

    def open_one(
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        was_clean_shutdown: bool = False,
        producer_id_expiration_ms: int = 86_400_000,
        **config: Any,
    ) -> PartitionLog:
        return PartitionLog.open(
            disk=disk,
            directory=DIRECTORY,
            topic_partition=TOPIC_PARTITION,
            config=LogConfig(**config),
            clock=clock,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean_shutdown=was_clean_shutdown,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )

    return open_one

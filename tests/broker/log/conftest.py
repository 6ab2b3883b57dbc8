"""Fixtures for the tests of the log: a manual clock, a disk in memory, batches, an open log, a node's logs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.maintenance import LogManagerConfig
from ottla.log.manager import LogManager
from ottla.log.meta_properties import MetaProperties, write_meta_properties
from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition, Uuid
from ottla.wire.records import Compression, Record, build_batch

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
TOPIC_PARTITION = TopicPartition("topic", 0)
TOPIC_ID = Uuid(b"t" * 16)
A_ID, B_ID = Uuid(b"a" * 16), Uuid(b"b" * 16)


@dataclass
class ManualClock:
    now_ms: int = NOW_MS
    stepped_ms: int = 0

    def monotonic_ms(self) -> int:
        return self.now_ms - self.stepped_ms - NOW_MS

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> int:
        self.now_ms += by_ms
        return self.now_ms

    def step_wall(self, by_ms: int) -> None:
        """Set the wall clock, as NTP or an operator would; the monotonic clock is unaffected."""
        self.now_ms += by_ms
        self.stepped_ms += by_ms


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
        directory: str = DIRECTORY,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        was_clean_shutdown: bool = False,
        producer_id_expiration_ms: int = 86_400_000,
        **config: Any,
    ) -> PartitionLog:
        return PartitionLog.open(
            disk=disk,
            directory=directory,
            topic_partition=TOPIC_PARTITION,
            config=LogConfig(**config),
            clock=clock,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean_shutdown=was_clean_shutdown,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )

    return open_one


class Counting:
    """A deterministic `Random` port: a counter."""

    def __init__(self) -> None:
        self.count = 0

    def randrange(self, stop: int) -> int:
        return stop - 1

    def uuid(self) -> Uuid:
        self.count += 1
        return Uuid(self.count.to_bytes(16))


@dataclass
class Node:
    """A disk with formatted directories /a and /b, and the manager of a node that runs on it."""

    disk: SimulatedDisk
    clock: ManualClock
    failures: list[str] = field(default_factory=list)
    directories: tuple[str, ...] = ("/a", "/b")
    config: LogConfig = field(default_factory=LogConfig)
    manager_config: LogManagerConfig = field(default_factory=LogManagerConfig)

    def format(self, path: str, directory_id: Uuid | None, **fields: Any) -> None:
        self.disk.make_directory(path)
        properties = {"cluster_id": "cluster", "node_id": 1, "directory_id": directory_id} | fields
        write_meta_properties(self.disk, path, MetaProperties(**properties))

    def start(self, *, node_id: int = 1, cluster_id: str | None = "cluster") -> LogManager:
        manager = LogManager(
            disk=self.disk,
            clock=self.clock,
            random=Counting(),
            log_directories=self.directories,
            node_id=node_id,
            cluster_id=cluster_id,
            config=self.manager_config,
            on_directory_failure=lambda path, error: self.failures.append(path),
        )
        manager.start(config_of_topic=lambda topic: self.config)
        return manager

    def create(self, manager: LogManager, topic: str = "topic", partition: int = 0, **options: Any) -> Any:
        return manager.get_or_create(TopicPartition(topic, partition), topic_id=TOPIC_ID, config=self.config, **options)

    def lose(self, manager: LogManager, path: str) -> None:
        """Fail a directory, and have the manager detect it."""
        self.disk.break_directory(path)
        self.clock.advance(60_000)
        manager.maintenance.tick(self.clock.monotonic_ms())
        assert self.failures == [path]


@pytest.fixture
def node(disk: SimulatedDisk, clock: ManualClock) -> Node:
    made = Node(disk, clock)
    made.format("/a", A_ID)
    made.format("/b", B_ID)
    return made

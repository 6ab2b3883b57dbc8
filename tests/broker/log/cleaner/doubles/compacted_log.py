"""A compacted log on a simulated disk with its cleaner, and what is left of it: for the tests of compaction."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ottla.errors import StorageError
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.log_cleaner import LogCleaner
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition
from ottla.wire.records import (
    ControlRecordType,
    Record,
    RecordBatch,
    build_batch,
    build_end_transaction_marker,
    read_records,
)

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
TOPIC_PARTITION = TopicPartition("topic", 0)
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=400,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
)


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def monotonic_ms(self) -> int:
        return self.now_ms - NOW_MS

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class CompactedLog:
    """The log; everything that is appended is replicated and synced at once."""

    def __init__(self, config: LogConfig = COMPACTED, cleaner: CleanerConfig | None = None, clock: Any = None) -> None:
        self.disk = SimulatedDisk()
        self.clock = clock or Clock()
        self.background = SimulatedBackground()
        self.config = config
        self.cleaner_config = cleaner or CleanerConfig(io_buffer_bytes=8)
        self.checkpoints: list[int] = []
        self.failures: list[Exception] = []
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.sequences: dict[int, int] = {}
        self.log = self.open()

    def open(self, recovery_point: int = 0) -> PartitionLog:
        """Open the log as after a crash of the process."""
        self.disk.kill()
        self.background.kill()
        self.log = self.logs[TOPIC_PARTITION] = PartitionLog.open(
            disk=self.disk,
            directory=DIRECTORY,
            topic_partition=TOPIC_PARTITION,
            config=self.config,
            clock=self.clock,
            recovery_point=recovery_point,
            on_storage_error=self._fail,
        )
        self.cleaner = LogCleaner(
            disk=self.disk,
            clock=self.clock,
            background=self.background,
            logs=self.logs,
            config=self.cleaner_config,
            may_clean=lambda _: True,
            is_being_moved=lambda _: False,
            on_cleaned=lambda log: self.checkpoints.append(log.first_dirty_offset),
            wake=lambda _: None,
        )
        self.log.flush()
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log

    def _fail(self, error: StorageError) -> None:
        """As `LogManager` does, which takes the directory offline."""
        self.failures.append(error)
        del self.logs[TOPIC_PARTITION]

    def update(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)
        self.log.update_config(self.config)

    # --- appending

    def append(self, *entries: tuple[bytes | None, bytes | None], **options: Any) -> int:
        """Append a batch of (key, value); return its base offset."""
        now_ms = self.clock.now_ms
        records = [Record(index, now_ms, key, value) for index, (key, value) in enumerate(entries)]
        producer_id = options.get("producer_id")
        if producer_id is not None:
            options.setdefault("producer_epoch", 0)
            options.setdefault("base_sequence", self.sequences.get(producer_id, 0))
            self.sequences[producer_id] = options["base_sequence"] + len(records)
        result = self.log.append_as_leader(
            bytearray(build_batch(records, **options)),
            leader_epoch=0,
            now_ms=now_ms,
            origin=AppendOrigin.CLIENT,
        )
        self.replicate()
        return result.first_offset

    def end_transaction(self, producer_id: int, *, is_aborted: bool = False) -> int:
        kind = ControlRecordType.ABORT if is_aborted else ControlRecordType.COMMIT
        result = self.log.append_as_leader(
            bytearray(
                build_end_transaction_marker(
                    kind,
                    producer_id=producer_id,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp_ms=self.clock.now_ms,
                )
            ),
            leader_epoch=0,
            now_ms=self.clock.now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        self.replicate()
        return result.first_offset

    def replicate(self) -> None:
        """Sync and commit everything."""
        self.log.flush()
        self.disk.complete_syncs()
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(self.clock.now_ms)
        self.replicate()

    # --- cleaning

    def tick(self) -> None:
        self.cleaner.run_slice(self.clock.monotonic_ms())

    def start_cleaning(self) -> None:
        """Measure at once, and start the cleaning; its work waits in ``background``."""
        self.cleaner.due_ms = self.clock.monotonic_ms()
        self.tick()

    def clean(self) -> None:
        """Clean until nothing is dirty."""
        self.start_cleaning()
        while self.background.complete_work():
            self.tick()

    # --- contents

    def batches(self) -> list[RecordBatch]:
        return [batch for segment in self.log.segments() for _, batch in segment.walk_batches()]

    def records(self, *, is_committed: bool = False) -> list[Record]:
        """Return the data records from the log start on; with ``is_committed`` as a read_committed reader does."""
        aborted = set(self._aborted_offsets()) if is_committed else set()
        return [
            record
            for batch in self.batches()
            if not batch.is_control and batch.base_offset not in aborted
            for record in read_records(batch, size_bytes_max=1 << 20)
            if record.offset >= self.log.log_start_offset
        ]

    def _aborted_offsets(self) -> Iterator[int]:
        transactions = [entry for segment in self.log.segments() for entry in segment.transaction_index.entries()]
        for batch in self.batches():
            for entry in transactions:
                is_within = entry.first_offset <= batch.base_offset <= entry.last_offset
                if batch.is_transactional and entry.producer_id == batch.producer_id and is_within:
                    yield batch.base_offset

    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments()]


def filled(**changes: Any) -> CompactedLog:
    """A log with keys 0 to 4 in turn, 30 batches of 80 bytes in several segments, and a fresh active one."""
    log = CompactedLog()
    log.update(**changes)
    for number in range(30):
        log.append((b"key-%d" % (number % 5), b"value-%02d" % number))
    log.roll()
    return log


def last_of_each_key(records: Sequence[Record]) -> dict[bytes | None, Record]:
    return {record.key: record for record in records}


def files_with(log: CompactedLog, suffix: str) -> list[str]:
    return [path for path in log.disk.paths() if path.endswith(suffix)]

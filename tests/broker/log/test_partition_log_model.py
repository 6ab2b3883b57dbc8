"""A model test of the whole log: it equals a list of batches, or after a crash a prefix of that list."""

import os
import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.log.config import LogConfig
from ottla.log.file_names import segment_path
from ottla.log.offset_index import ENTRY as OFFSET_ENTRY
from ottla.log.partition_log import PartitionLog
from ottla.log.time_index import ENTRY as TIME_ENTRY
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition, Uuid
from ottla.wire.records import Record, RecordBatch, build_batch, iterate_batches

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
PRODUCER_ID = 7
EXAMPLES = int(os.environ.get("OTTLA_LOG_MODEL_EXAMPLES", "40"))


class FixedClock:
    def monotonic_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return NOW_MS


class SeededRandom:
    """A `Random` port that Hypothesis seeds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))


class LogModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.batches: list[bytes] = []
        # Truncated batches before a sync: a crash may bring them back, which replication repairs.
        self.truncated: list[list[bytes]] = []
        self.durable_end = 0
        self.next_sequence = 0
        self.last_appended: bytes | None = None
        self.timestamp_ms = NOW_MS
        self.epoch = 0

    @initialize(segment_bytes=st.sampled_from([700, 1500, 5000]), interval_bytes=st.sampled_from([0, 200, 4096]))
    def open(self, segment_bytes: int, interval_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval_bytes)
        self.log = self.reopen()

    def reopen(self, **how: Any) -> PartitionLog:
        return PartitionLog.open(
            disk=self.disk,
            directory=DIRECTORY,
            topic_partition=TopicPartition("topic", 0),
            config=self.config,
            clock=FixedClock(),
            **how,
        )

    @property
    def model_end(self) -> int:
        return parse(self.batches[-1]).next_offset if self.batches else self.empty_at

    empty_at = 0

    # --- operations

    @rule(count=st.integers(1, 4), size_bytes=st.integers(0, 140), step_ms=st.integers(-3, 3), idempotent=st.booleans())
    def append(self, count: int, size_bytes: int, step_ms: int, idempotent: bool) -> None:
        self.timestamp_ms += step_ms
        records = [Record(index, self.timestamp_ms + index, b"k", b"v" * size_bytes) for index in range(count)]
        producer: dict[str, Any] = {}
        if idempotent:
            producer = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": self.next_sequence}
        data = bytearray(build_batch(records, **producer))
        expected = self.model_end

        result = self.log.append_as_leader(data, leader_epoch=self.epoch, now_ms=NOW_MS)

        assert (result.first_offset, result.last_offset) == (expected, expected + count - 1)
        self.batches.append(bytes(data))
        if idempotent:
            self.next_sequence += count
            self.last_appended = bytes(data)

    @rule()
    def send_the_last_idempotent_batch_again(self) -> None:
        if self.last_appended is None or self.last_appended not in self.batches[-5:]:
            return
        first = parse(self.last_appended)
        again = bytearray(self.last_appended)
        again[0:8] = bytes(8)

        result = self.log.append_as_leader(again, leader_epoch=self.epoch, now_ms=NOW_MS)

        assert result.is_duplicate
        assert (result.first_offset, result.last_offset) == (first.base_offset, first.last_offset)

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4), gap=st.integers(0, 2))
    def append_as_follower(self, counts: list[int], gap: int) -> None:
        self.epoch += 1
        data = bytearray()
        made = []
        offset = self.model_end
        for count in counts:
            records = [Record(offset + index, self.timestamp_ms, None, b"f" * 50) for index in range(count)]
            made.append(build_batch(records, base_offset=offset, leader_epoch=self.epoch))
            data += made[-1]
            offset += count
        data += made[-1][: gap * 20]

        self.log.append_as_follower(data)

        self.batches += made

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        start, end = self.log.log_start_offset, self.model_end
        offset = start + round((end - start) * part)
        if self.log.truncate_to(offset):
            self.truncated.append(self.batches)
        self.batches = [batch for batch in self.batches if parse(batch).last_offset < offset]
        if not self.batches:
            self.empty_at = self.log.log_end_offset
        self.expire_the_producer()

    @rule(distance=st.integers(0, 100))
    def truncate_fully(self, distance: int) -> None:
        offset = self.log.log_start_offset + distance
        self.log.truncate_fully_and_start_at(offset)
        self.truncated.append(self.batches)
        self.batches = []
        self.empty_at = offset
        self.expire_the_producer()

    def expire_the_producer(self) -> None:
        """Continue with the producer's sequence that the log still has."""
        self.durable_end = min(self.durable_end, self.log.recovery_point)
        self.last_appended = None
        entries = self.log.active_producers()
        self.next_sequence = entries[0].last_sequence + 1 if entries else 0

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable_end = self.model_end
        self.truncated = []
        assert self.log.recovery_point == self.model_end

    @rule()
    def start_a_flush(self) -> None:
        self.log.flush_later(lambda error: None)

    @rule()
    def complete_flushes(self) -> None:
        self.disk.complete_syncs()
        self.durable_end = max(self.durable_end, self.log.recovery_point)

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        start, end = self.log.log_start_offset, self.model_end
        offset = start + round((end - start) * part)
        self.log.delete_records_before(offset)
        self.log.apply_retention(NOW_MS)
        first_offset = self.log.segments()[0].base_offset
        self.batches = [batch for batch in self.batches if parse(batch).base_offset >= first_offset]
        if not self.batches:
            self.empty_at = self.log.log_end_offset

    @rule()
    def tick(self) -> None:
        self.log.tick(60_000)

    # --- restarts

    @rule()
    def restart_cleanly(self) -> None:
        end_offset, start_offset = self.log.log_end_offset, self.log.log_start_offset
        self.log.close()
        self.durable_end = self.model_end
        self.truncated = []
        self.disk.kill()
        self.log = self.reopen(was_clean_shutdown=True, log_start_offset=start_offset, recovery_point=end_offset)
        assert self.log.log_end_offset == end_offset

    @rule(lag=st.integers(0, 10))
    def kill_and_restart(self, lag: int) -> None:
        end_offset, start_offset = self.log.log_end_offset, self.log.log_start_offset
        recovery_point = max(0, self.log.recovery_point - lag)
        self.disk.kill()
        self.log = self.reopen(log_start_offset=start_offset, recovery_point=recovery_point)
        assert self.log.log_end_offset == end_offset
        assert self.log.truncated_bytes == 0

    @rule(seed=st.none() | st.integers(0, 2**32), lag=st.integers(0, 10))
    def crash_and_restart(self, seed: int | None, lag: int) -> None:
        start_offset = self.log.log_start_offset
        recovery_point = max(0, self.log.recovery_point - lag)
        visible = [batch for batch in self.batches if parse(batch).last_offset >= start_offset]
        durable = [batch for batch in visible if parse(batch).last_offset < self.durable_end]
        self.disk.crash(None if seed is None else SeededRandom(seed))
        self.log = self.reopen(log_start_offset=start_offset, recovery_point=recovery_point)

        found = self.read_all()
        histories = [visible, *([b for b in past if parse(b).last_offset >= start_offset] for past in self.truncated)]
        assert any(found == history[: len(found)] for history in histories)
        assert found[: len(durable)] == durable
        self.batches = found
        self.empty_at = self.log.log_end_offset
        self.expire_the_producer()

    # --- invariants

    def read_all(self) -> list[bytes]:
        found: list[bytes] = []
        log = self.log
        offset = log.log_start_offset
        while (records := log.read(offset, size_bytes_max=1000).records) is not None:
            for batch in iterate_batches(records.read()):
                batch.check_crc()
                assert batch.last_offset >= offset
                found.append(bytes(batch.data))
                offset = batch.next_offset
        assert offset == log.log_end_offset
        return found

    @invariant()
    def log_equals_the_model(self) -> None:
        start_offset = self.log.log_start_offset
        assert self.log.log_end_offset == self.model_end
        assert self.read_all() == [batch for batch in self.batches if parse(batch).last_offset >= start_offset]

    @invariant()
    def every_offset_is_found(self) -> None:
        for offset in range(self.log.log_start_offset, self.log.log_end_offset):
            records = self.log.read(offset, size_bytes_max=1).records
            assert records is not None
            batch = parse(records.read())
            assert batch.base_offset <= offset <= batch.last_offset

    @invariant()
    def indexes_match_the_log(self) -> None:
        for segment in self.log.segments():
            places = {position: batch for position, batch in segment.walk_headers()}
            for offset, position in segment.offset_index.entries():
                assert places[position].last_offset == offset
            for timestamp_ms, offset in segment.time_index.entries():
                upto = [batch.max_timestamp_ms for batch in places.values() if batch.last_offset <= offset]
                assert max(upto) == timestamp_ms

    @invariant()
    def index_files_hold_whole_entries(self) -> None:
        for segment in self.log.segments():
            index = self.disk.contents(segment_path(DIRECTORY, segment.base_offset, ".index"))
            times = self.disk.contents(segment_path(DIRECTORY, segment.base_offset, ".timeindex"))
            assert len(index) % OFFSET_ENTRY.size == len(times) % TIME_ENTRY.size == 0

    @invariant()
    def epochs_follow_the_batches(self) -> None:
        for data in self.batches:
            batch = parse(data)
            if batch.base_offset >= self.log.log_start_offset:
                assert self.log.epoch_for_offset(batch.base_offset) == batch.leader_epoch


def parse(data: bytes) -> RecordBatch:
    return RecordBatch(data, 0)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)


def test_truncation_and_roll_before_a_power_cut_leave_no_offset_twice() -> None:
    model = LogModel()
    model.open(segment_bytes=700, interval_bytes=0)
    model.append_as_follower([1], 0)
    model.append_as_follower([1], 0)
    model.roll()
    model.truncate(0.5)
    model.roll()
    model.append_as_follower([1], 0)
    model.roll()
    model.crash_and_restart(seed=0, lag=0)

    model.epochs_follow_the_batches()
    model.log_equals_the_model()
    assert [parse(batch).leader_epoch for batch in model.batches] == [1]

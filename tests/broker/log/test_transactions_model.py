"""A model test of transactions in a log: open ones, aborted ones and the last stable offset follow from its batches.

Rolls, deleted records and segments, truncations, restarts, lost snapshots and power cuts come between them.
"""

import os
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import TopicPartition
from ottla.wire.records import ControlRecordType, Record, build_batch, build_end_transaction_marker, iterate_batches

DIRECTORY = "/data/topic-0"
PRODUCERS = (1, 2, 3)
EXAMPLES = max(int(os.environ.get("OTTLA_LOG_MODEL_EXAMPLES", "40")) // 4, 40)
"""Each takes longer than one of the log's model, because every offset is read after every step."""


class Entry(NamedTuple):
    """A batch of the log: ``producer_id`` None outside of transactions, ``ends_with`` None for data."""

    first_offset: int
    last_offset: int
    producer_id: int | None
    ends_with: ControlRecordType | None


class Ended(NamedTuple):
    """A transaction with a marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class TransactionsModel(RuleBasedStateMachine):
    """``entries`` has every batch that was not truncated, also those of deleted segments."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock()
        self.entries: list[Entry] = []
        self.durable_end = 0
        self.has_lost_watermark = False
        """A restart forgets that an ended transaction has a marker that is not replicated; its end is decided."""

    @initialize(segment_bytes=st.sampled_from([300, 700, 5_000]))
    def open(self, segment_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=0)
        self.log = self.reopen()

    def reopen(self, *, log_start_offset: int = 0, was_clean_shutdown: bool = False) -> PartitionLog:
        return PartitionLog.open(
            disk=self.disk,
            directory=DIRECTORY,
            topic_partition=TopicPartition("topic", 0),
            config=self.config,
            clock=self.clock,
            log_start_offset=log_start_offset,
            was_clean_shutdown=was_clean_shutdown,
            recovery_point=self.durable_end if was_clean_shutdown else 0,
        )

    # --- what follows from the entries

    def transactions(self) -> tuple[dict[int, int], list[Ended]]:
        """Return the first offsets of open transactions, by producer, and the ended ones by marker."""
        opened: dict[int, int] = {}
        ended: list[Ended] = []
        for entry in self.entries:
            if entry.producer_id is None:
                continue
            if entry.ends_with is None:
                opened.setdefault(entry.producer_id, entry.first_offset)
            elif entry.producer_id in opened:
                is_aborted = entry.ends_with is ControlRecordType.ABORT
                first_offset = opened.pop(entry.producer_id)
                ended.append(Ended(entry.producer_id, first_offset, entry.first_offset, is_aborted))
        return opened, ended

    def stable_offset(self, firsts: list[int]) -> int:
        unstable = min(firsts, default=self.log.high_watermark)
        return min(self.log.high_watermark, max(unstable, self.log.log_start_offset))

    # --- operations

    def append(self, batch: bytes, producer_id: int | None, ends_with: ControlRecordType | None) -> None:
        result = self.log.append_as_leader(
            bytearray(batch), leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=self.clock.wall_ms()
        )
        self.entries.append(Entry(result.first_offset, result.last_offset, producer_id, ends_with))

    @rule(producer_id=st.sampled_from([*PRODUCERS, None]), count=st.integers(1, 3))
    def write(self, producer_id: int | None, count: int) -> None:
        opened, _ = self.transactions()
        records = [Record(index, self.clock.wall_ms(), b"k", b"v" * 40) for index in range(count)]
        if producer_id is None:
            self.append(build_batch(records), None, None)
        else:
            batch = build_batch(records, producer_id=producer_id, producer_epoch=0, is_transactional=True)
            self.append(batch, producer_id, None)
        assert self.transactions()[0].keys() - opened.keys() <= {producer_id}

    @rule(choice=st.integers(0, 5), kind=st.sampled_from([ControlRecordType.COMMIT, ControlRecordType.ABORT]))
    def end(self, choice: int, kind: ControlRecordType) -> None:
        """End an open transaction, or, if there is none, write a marker that ends nothing."""
        opened = sorted(self.transactions()[0]) or PRODUCERS
        producer_id = opened[choice % len(opened)]
        marker = build_end_transaction_marker(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=self.clock.wall_ms()
        )
        self.append(marker, producer_id, kind)

    @rule(behind=st.integers(0, 4))
    def replicate(self, behind: int) -> None:
        self.log.update_high_watermark(max(self.log.high_watermark, self.log.log_end_offset - behind))
        if self.log.high_watermark == self.log.log_end_offset:
            self.has_lost_watermark = False

    @rule()
    def roll(self) -> None:
        self.log.roll(self.clock.wall_ms())

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable_end = self.log.log_end_offset

    @rule(kept=st.integers(0, 6))
    def delete_records(self, kept: int) -> None:
        self.log.delete_records_before(self.log.high_watermark - kept)
        self.disk.complete_syncs()
        self.log.apply_retention(self.clock.wall_ms())

    @rule(count=st.integers(0, 6))
    def truncate(self, count: int) -> None:
        if self.log.truncate_to(max(self.log.log_start_offset, self.log.log_end_offset - count)):
            self.entries = [entry for entry in self.entries if entry.last_offset < self.log.log_end_offset]
            self.has_lost_watermark = True
        self.flush()

    # --- restarts

    @rule()
    def restart_cleanly(self) -> None:
        self.durable_end = self.log.log_end_offset
        self.log.close()
        self.disk.kill()
        self.restart(was_clean_shutdown=True)

    @rule()
    def kill_and_restart(self) -> None:
        self.disk.kill()
        self.restart()

    @precondition(lambda self: self.log.segments()[0].base_offset == 0)
    @rule(suffix=st.sampled_from([".snapshot", ".txnindex"]))
    def lose_files_and_restart(self, suffix: str) -> None:
        """As long as every segment is there, the log itself has everything."""
        self.disk.kill()
        for path in self.disk.paths():
            if path.endswith(suffix):
                self.disk.remove(path)
        self.restart()

    @rule(seed=st.integers(0, 2**32))
    def cut_power_and_restart(self, seed: int) -> None:
        if self.log.log_start_offset > 0:
            self.flush()
        self.disk.crash(SeededRandom(seed))
        self.restart(may_lose_tail=True)
        self.flush()  # a second power cut might bring back what recovery has truncated

    def restart(self, *, was_clean_shutdown: bool = False, may_lose_tail: bool = False) -> None:
        start_offset, end_offset = self.log.log_start_offset, self.log.log_end_offset
        self.log = self.reopen(log_start_offset=start_offset, was_clean_shutdown=was_clean_shutdown)
        assert self.durable_end <= self.log.log_end_offset <= end_offset
        assert may_lose_tail or self.log.log_end_offset == end_offset
        self.entries = [entry for entry in self.entries if entry.last_offset < self.log.log_end_offset]
        self.durable_end = min(self.durable_end, self.log.log_end_offset)
        self.has_lost_watermark = True

    # --- invariants

    @invariant()
    def open_transactions_are_known(self) -> None:
        opened, _ = self.transactions()

        assert opened == {
            entry.producer_id: entry.current_transaction_first_offset
            for entry in self.log.active_producers()
            if entry.current_transaction_first_offset >= 0
        }

    @invariant()
    def last_stable_offset_is_before_what_has_no_replicated_end(self) -> None:
        opened, ended = self.transactions()
        unreplicated = [each.first_offset for each in ended if each.last_offset >= self.log.high_watermark]
        strict, loose = self.stable_offset([*opened.values(), *unreplicated]), self.stable_offset([*opened.values()])

        assert strict <= self.log.last_stable_offset <= loose
        assert self.has_lost_watermark or self.log.last_stable_offset == strict

    @invariant()
    def read_has_the_aborted_transactions_of_its_batches(self) -> None:
        """A small read may have later ones too: it ends at the next index entry for this, as in Kafka."""
        _, ended = self.transactions()
        aborted = [each for each in ended if each.is_aborted]
        for start in range(self.log.log_start_offset, self.log.log_end_offset):
            for size_bytes_max in (1, 1_000_000):
                found = self.log.read(start, size_bytes_max=size_bytes_max, with_aborted_transactions=True)
                assert found.records is not None
                assert found.aborted_transactions is not None
                *_, last = iterate_batches(found.records.read())
                listed = [each[:3] for each in found.aborted_transactions]
                open_until = [each[:3] for each in aborted if each.last_offset >= start]
                overlapping = [each for each in open_until if each[1] <= last.last_offset]

                assert listed == [each for each in open_until if each in listed]
                assert set(overlapping) <= set(listed)
                assert size_bytes_max == 1 or listed == overlapping


TestTransactionsModel = TransactionsModel.TestCase
TestTransactionsModel.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)

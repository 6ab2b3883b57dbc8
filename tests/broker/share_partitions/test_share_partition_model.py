"""A share-partition against a model of single offsets, under random requests, time-outs, failed writes and restarts.

Invariants: at most one member has a record; no record is delivered more often than the limit; every record below the
start offset is acknowledged or archived; the numbers of records in flight, complete and locked are exact.
"""

import random
from dataclasses import dataclass

import pytest

from ottla.errors import ErrorCode
from ottla.purgatory.steps import run_to_end
from ottla.share_partitions import acquisition, in_flight_window
from ottla.share_partitions.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, IS_COMPLETE, STATE_MASK
from ottla.share_partitions.share_partition import SharePartition
from recording_persister import RecordingPersister, Write
from share_partition_node import LOCK_MS, acknowledge, acquire, new_share_partition

LIMIT = 5
MEMBERS = ("a", "b", "c")
STEPS = 300
FINAL = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


@dataclass
class Record:
    """What the model knows of an offset."""

    state: int = AVAILABLE
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    pending: int | None = None


class Model:
    """Runs random steps against a share-partition and checks each result."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.persister = RecordingPersister(is_held=True)
        self.now_ms = 0
        self.records: dict[int, Record] = {}
        self.log: list[tuple[int, int]] = []
        self.log_start = 0
        self.waiting: list[tuple[Write, list[int]]] = []
        self.start()

    def start(self) -> None:
        self.persister.is_held = False
        self.partition: SharePartition = new_share_partition(self.persister)
        self.persister.is_held = True
        self.persister.writes.clear()
        self.waiting.clear()

    def step(self) -> None:
        chosen = self.random.choices(
            [self.append, self.acquire, self.acknowledge, self.write, self.wait, self.leave, self.restart, self.delete],
            [4, 8, 10, 6, 3, 1, 0.3, 0.3],
        )[0]
        chosen()
        self.check()

    def record(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())

    def append(self) -> None:
        base = self.log[-1][1] + 1 if self.log else 0
        base += self.random.choice((0, 0, 0, 0, 2))  # a gap of compaction
        self.log.append((base, base + self.random.randrange(8)))

    def acquire(self) -> None:
        member = self.random.choice(MEMBERS)
        readable = [batch for batch in self.log if batch[1] >= self.log_start]
        acquired = acquire(
            self.partition,
            member,
            readable[: 1 + self.random.randrange(len(readable))] if readable else [],
            records_max=self.random.randrange(1, 20),
            batch_size=self.random.randrange(1, 20),
            is_record_limit=self.random.random() < 0.4,
            now_ms=self.now_ms,
        )
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                record = self.record(offset)
                assert record.state == AVAILABLE, offset
                assert record.pending is None, offset
                assert record.count + 1 == count <= LIMIT, offset
                self.records[offset] = Record(ACQUIRED, count, member, self.now_ms + LOCK_MS)

    def acknowledge(self) -> None:
        held = [offset for offset, record in self.records.items() if record.state == ACQUIRED]
        if not held:
            return
        first = self.random.choice(held)
        last = first
        while last + 1 in held and self.random.random() < 0.8:
            last += 1
        member = self.random.choice((self.records[first].member, *MEMBERS))
        types = [self.random.choice((0, 1, 1, 1, 2, 3, 4)) for _ in range(first, last + 1)]
        if self.random.random() < 0.4:
            types = types[:1]
        each = types if len(types) > 1 else types * (last - first + 1)
        start = self.partition.window.start_offset
        offsets = [offset for offset in range(first, last + 1) if offset >= start]
        is_valid = all(
            self.record(offset).state == ACQUIRED
            and self.record(offset).pending is None
            and self.record(offset).member == member
            for offset in offsets
        )
        before = len(self.persister.writes)
        result = acknowledge(self.partition, member, (first, last, types), now_ms=self.now_ms)
        if not is_valid:
            assert result is not None
            assert result.error == ErrorCode.INVALID_RECORD_STATE
            return
        changed = []
        for offset in offsets:
            record, acknowledge_type = self.record(offset), each[offset - first]
            if acknowledge_type == 4:
                record.deadline_ms = self.now_ms + LOCK_MS
                continue
            target = FINAL[acknowledge_type]
            record.pending = ARCHIVED if target == AVAILABLE and record.count >= LIMIT else target
            changed.append(offset)
        writes = self.persister.writes[before:]
        assert sum(batch.last_offset - batch.first_offset + 1 for it in writes for batch in it.batches) == len(changed)
        if writes:
            (write,) = writes
            self.waiting.append((write, changed))

    def write(self) -> None:
        if not self.waiting:
            return
        write, offsets = self.waiting.pop(0)
        is_failed = self.random.random() < 0.25
        for offset in offsets:
            record = self.record(offset)
            assert record.pending is not None
            if not is_failed:
                self.records[offset] = Record(record.pending, record.count)
            elif record.deadline_ms <= self.now_ms and record.member == "expired":
                self.release(offset)
            else:
                record.pending = None
        self.persister.complete(write, ErrorCode.COORDINATOR_NOT_AVAILABLE if is_failed else ErrorCode.NONE)

    def release(self, offset: int) -> None:
        record = self.record(offset)
        self.records[offset] = Record(ARCHIVED if record.count >= LIMIT else AVAILABLE, record.count)

    def wait(self) -> None:
        self.now_ms += self.random.choice((10, LOCK_MS // 2, LOCK_MS))
        while self.partition.due_ms() <= self.now_ms:
            run_to_end(self.partition.expire_locks(self.now_ms))
        for offset, record in list(self.records.items()):
            if record.state == ACQUIRED and record.deadline_ms <= self.now_ms:
                if record.pending is None:
                    self.release(offset)
                else:
                    record.member = "expired"
        self.complete_unawaited_writes()

    def complete_unawaited_writes(self) -> None:
        awaited = [write for write, _ in self.waiting]
        for write in self.persister.writes:
            if not any(write is each for each in awaited) and not write.result.is_complete:
                self.persister.complete(write)

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        before = len(self.persister.writes)
        run_to_end(self.partition.release_member(member, older_than=1))
        offsets = [
            o for o, r in self.records.items() if r.state == ACQUIRED and r.member == member and r.pending is None
        ]
        for offset in offsets:
            record = self.record(offset)
            record.pending = ARCHIVED if record.count >= LIMIT else AVAILABLE
        for write in self.persister.writes[before:]:
            self.waiting.append((write, offsets))

    def restart(self) -> None:
        self.partition.fence()
        self.start()
        for offset in list(self.records):
            if offset >= self.persister.start_offset:
                state, count = self.persister.records.get(offset, (AVAILABLE, 0))
                self.records[offset] = Record(state, count)
        self.partition.on_log_start(self.log_start)

    def delete(self) -> None:
        if not self.log:
            return
        self.log_start = max(self.log_start, self.random.randrange(self.log[-1][1] + 1))
        self.partition.on_log_start(self.log_start)

    def check(self) -> None:
        window = self.partition.window
        complete, previous = 0, window.start_offset - 1
        locked: dict[int, int] = {}
        for batch in window:
            assert batch.first_offset > previous or batch.first_offset < window.start_offset
            previous = batch.last_offset
            cells = batch.cells_between(batch.first_offset, batch.last_offset)
            for index, cell in enumerate(cells):
                offset = batch.first_offset + index
                lock = batch.lock if batch.locks is None else batch.locks[index]
                if offset >= window.start_offset:
                    complete += IS_COMPLETE[cell]
                    expected = self.record(offset)
                    if expected.pending is None and cell & STATE_MASK != ARCHIVED:
                        assert cell & STATE_MASK == expected.state, offset
                if lock:
                    locked[lock] = locked.get(lock, 0) + 1
        if self.random.random() < 0.5:
            assert window.next_fetch_offset() == self.first_available()
        assert window.complete_count == complete
        assert window.in_flight_count == (window.end_offset - window.start_offset + 1 if len(window) else 0)
        for number, count in locked.items():
            lock_found = window.locks.find(number)
            assert lock_found is None or lock_found.held == count
        for offset, record in self.records.items():
            if self.log_start <= offset < window.start_offset:
                assert record.state in (ACKNOWLEDGED, ARCHIVED) or not self.is_in_log(offset), offset

    def first_available(self) -> int:
        """Search the whole window."""
        window = self.partition.window
        expected = window.start_offset
        for batch in window:
            if batch.first_offset > expected and expected <= window.loaded_until:
                return expected
            for offset in range(max(batch.first_offset, window.start_offset), batch.last_offset + 1):
                if batch.cells_between(offset, offset)[0] & STATE_MASK == AVAILABLE:
                    return offset
            expected = batch.last_offset + 1
        return window.next_new_offset

    def is_in_log(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self.log)


@pytest.mark.parametrize("seed", range(40))
def test_random_requests_leave_every_record_with_one_member_or_none(seed: int) -> None:
    model = Model(seed)
    for _ in range(STEPS):
        model.step()

    assert model.persister.written


@pytest.mark.parametrize("seed", range(40))
def test_random_requests_for_divided_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (acquisition, in_flight_window):
        monkeypatch.setattr(module, "RECORDS_MAX", 3)
    model = Model(seed)
    for _ in range(STEPS):
        model.step()

    assert model.persister.written

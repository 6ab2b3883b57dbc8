"""`StateChanges`: changes of records in flight that become final once the share coordinator has them.

Source: SharePartition.acknowledgeBatchRecords, rollbackOrProcessStateUpdates of Apache Kafka 4.3.1.
"""

import re
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory.steps import Steps
from ottla.share_partitions.acquisition_locks import NO_LOCK, AcquisitionLock
from ottla.share_partitions.in_flight_batch import InFlightBatch
from ottla.share_partitions.in_flight_window import InFlightWindow
from ottla.share_partitions.record_state import (
    ACQUIRED,
    FINISH,
    IS_COMPLETE,
    ROLL_BACK,
    RUNS,
    STATE_MASK,
    STATES,
    WRITTEN,
    change_table,
    count_of,
    release_table,
)
from ottla.share_partitions.step_budget import StepBudget
from ottla.share_state.persister import StateBatch
from ottla.types import Offset
from ottla.wire.acknowledge_type import AcknowledgeType

_RUNS_PER_PART: Final = 256
_RECORDS_PER_PART: Final = 16_384
"""Of batches whose records differ: to find the runs of so many takes 200 us."""
_RENEW: Final = int(AcknowledgeType.RENEW)
_IS_TYPE: Final = tuple(bytes(255 if value == wanted else 0 for value in range(256)) for wanted in range(5))
_HELD: Final = 255
_IS_ACQUIRED: Final = bytes(_HELD if value & STATE_MASK == ACQUIRED else 0 for value in range(256))
_IS_OWNED: Final = bytes((0,)) + bytes((_HELD,)) * 255
_HELD_RUNS: Final = re.compile(rb"\xff+")
_OWNED_RUNS: Final = re.compile(rb"\x01+")

NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
SUBSET_NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The subset batch is not in the acquired state."
OFFSET_NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER: Final = "Member is not the owner of batch record"
NOT_OWNER_OF_OFFSET: Final = "Member is not the owner of offset"


def _rejected(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


class StateChanges:
    """See the module: the changes of one request; `finish` or `roll_back` ends them."""

    def __init__(self, window: InFlightWindow, delivery_count_limit: int) -> None:
        self._window = window
        self._limit = delivery_count_limit
        self._ranges: deque[tuple[Offset, Offset]] = deque()
        """Removed one by one as they are written or ended: to free 100,000 at once takes 5 ms."""
        self._budget = StepBudget()
        self._renewed: int | None = None
        """The lock of the records that were renewed last."""

    def __len__(self) -> int:
        """Return the number of changed ranges."""
        return len(self._ranges)

    def acknowledge(
        self, batch: InFlightBatch, member_id: str, first_offset: Offset, last_offset: Offset, types: bytes
    ) -> list[tuple[Offset, Offset]]:
        """Change the batch's records in this range, whose acknowledge types are ``types``, one for all or one for each.

        Returns:
            The ranges whose lock is to be renewed, which have not changed.

        Raises:
            KafkaError: INVALID_RECORD_STATE, a record is not acquired by this member.
        """
        start, stop = batch.indexes(max(first_offset, self._window.start_offset), last_offset)
        if start >= stop:
            return []
        is_whole = start == 0 and stop == len(batch)
        if batch.cells is None:
            self._require_batch(batch, member_id)
        if batch.cells is None and is_whole and len(types) == 1:
            return self._change(batch, 0, stop, types[0])
        self._require_offsets(batch, member_id, start, stop)
        if len(types) == 1:
            return self._change(batch, start, stop, types[0])
        from_type = batch.first_offset + start - first_offset
        return self._change_each(batch, start, stop, types[from_type : from_type + stop - start])

    def release(self, batch: InFlightBatch, lock: AcquisitionLock) -> None:
        """Release what the lock still has of this batch, once that is written."""
        self._change_held(batch, lock, change_table(AcknowledgeType.RELEASE, self._limit))

    def expire(self, batch: InFlightBatch, lock: AcquisitionLock) -> int:
        """Release what an ended lock still has, for good: nothing waits for the write; return the number of records."""
        # The locks that the cells name are not found any more, which is as good as none.
        count = self._change_held(batch, lock, release_table(self._limit))
        self._window.note_available(lock.first_offset)
        return count

    def _change_held(self, batch: InFlightBatch, lock: AcquisitionLock, table: bytes) -> int:
        """Change the records of the batch that the lock still has; return their number."""
        start, stop = batch.indexes(max(lock.first_offset, self._window.start_offset), lock.last_offset)
        if start >= stop:
            return 0
        if batch.cells is None or batch.locks is None:
            if batch.lock != lock.number or batch.cell & STATE_MASK != ACQUIRED:
                return 0
            self._window.complete_count += batch.change(start, stop, table)
            self._note(batch.first_offset + start, batch.first_offset + stop - 1)
            return stop - start
        old = bytes(batch.cells[start:stop])
        owned = bytes(map(lock.number.__eq__, batch.locks[start:stop])).translate(_IS_OWNED)
        mask = _and(old.translate(_IS_ACQUIRED), owned)
        changed = _select(mask, old.translate(table), old)
        self._window.complete_count += changed.translate(IS_COMPLETE).count(1) - old.translate(IS_COMPLETE).count(1)
        batch.cells[start:stop] = changed
        base = batch.first_offset + start
        for run in _HELD_RUNS.finditer(mask):
            self._note(base + run.start(), base + run.end() - 1)
        return mask.count(_HELD)

    def writes(self) -> Iterator[tuple["StateChanges", tuple[StateBatch, ...]]]:
        """Remove the changes; yield them in parts that are written one by one, each with its records as they will be.

        The parts are small: each is finished or rolled back in one go, when the share coordinator responds.
        """
        part, found, records = StateChanges(self._window, self._limit), [], 0
        while self._ranges:
            first_offset, last_offset = self._ranges.popleft()
            for batch in self._window.overlapping(first_offset, last_offset):
                base = max(first_offset, batch.first_offset)
                for first, last, value in _written_runs(batch, base, min(last_offset, batch.last_offset)):
                    found.append(StateBatch(first, last, value & STATE_MASK, count_of(value)))
                    part._note(first, last)
                    records += 0 if batch.cells is None else last - first + 1
                    if len(found) >= _RUNS_PER_PART or records >= _RECORDS_PER_PART:
                        yield part, tuple(found)
                        part, found, records = StateChanges(self._window, self._limit), [], 0
        if found:
            yield part, tuple(found)

    def release_locks(self, batch: InFlightBatch, start: int, stop: int) -> None:
        """Note that these records have no lock any more."""
        locks = self._window.locks
        if batch.locks is None and stop - start == len(batch):
            locks.release(batch.lock, stop - start)
            batch.lock = NO_LOCK
            return
        batch.split()
        assert batch.locks is not None
        section = batch.locks[start:stop]
        if section.count(section[0]) == len(section):
            locks.release(section[0], len(section))
        else:
            for number, count in Counter(section).items():
                locks.release(number, count)
        _set_locks(batch, start, stop, NO_LOCK)

    def renew(self, first_offset: Offset, last_offset: Offset, member_id: str, deadline_ms: int) -> Steps[None]:
        """Replace the locks of these records with others that end later; those of one batch get one lock."""
        for batch in self._window.overlapping(first_offset, last_offset):
            start, stop = batch.indexes(max(first_offset, self._window.start_offset), last_offset)
            if start < stop and self._is_held(batch, start, stop, member_id):
                self._renew_batch(batch, start, stop, member_id, deadline_ms)
            if self._budget.spend(stop - start):
                yield None

    def _renew_batch(self, batch: InFlightBatch, start: int, stop: int, member_id: str, deadline_ms: int) -> None:
        self.release_locks(batch, start, stop)
        locks, first_offset, last_offset = self._window.locks, batch.first_offset + start, batch.first_offset + stop - 1
        renewed = None if self._renewed is None else locks.find(self._renewed)
        if renewed is not None and batch.first_offset <= renewed.first_offset <= renewed.last_offset < first_offset:
            locks.extend(renewed.number, last_offset, stop - start)
        else:
            self._renewed = locks.add(member_id, deadline_ms, first_offset, last_offset, stop - start)
        assert self._renewed is not None
        _set_locks(batch, start, stop, self._renewed)

    def _is_held(self, batch: InFlightBatch, start: int, stop: int, member_id: str) -> bool:
        try:
            if batch.cells is None:
                self._require_batch(batch, member_id)
            else:
                self._require_offsets(batch, member_id, start, stop)
        except KafkaError:
            return False  # the lock has ended since the acknowledgement was checked
        return True

    def finish(self) -> None:
        """Make the changes final."""
        for batch, start, stop in self._changed():
            batch.change(start, stop, FINISH)
            self.release_locks(batch, start, stop)
            self._window.note_available(batch.first_offset + start)

    def roll_back(self) -> None:
        """Undo the changes; records whose lock has ended meanwhile are released."""
        for _ in self.roll_back_in_steps():
            pass

    def roll_back_in_steps(self) -> Iterator[None]:
        """Do the same in slices: a request may have changed tens of thousands of ranges."""
        for batch, start, stop in self._changed():
            self._window.complete_count += batch.change(start, stop, ROLL_BACK)
            ended = {lock for lock in batch.distinct_locks(start, stop) if self._window.locks.find(lock) is None}
            if ended:
                self._release_ended(batch, start, stop, ended)
            if self._budget.spend(stop - start):
                yield None

    def _note(self, first_offset: Offset, last_offset: Offset) -> None:
        """Note a changed range; it continues the last one if it follows it."""
        if self._ranges and self._ranges[-1][1] + 1 == first_offset:
            self._ranges[-1] = (self._ranges[-1][0], last_offset)
        else:
            self._ranges.append((first_offset, last_offset))

    def _changed(self) -> Iterator[tuple[InFlightBatch, int, int]]:
        """Remove what has been changed; yield batch, start and stop of it if it is still in the window."""
        while self._ranges:
            first_offset, last_offset = self._ranges.popleft()
            for batch in self._window.overlapping(first_offset, last_offset):
                start, stop = batch.indexes(max(first_offset, self._window.start_offset), last_offset)
                if start < stop:
                    yield batch, start, stop

    def _require_batch(self, batch: InFlightBatch, member_id: str) -> None:
        lock = self._window.locks.find(batch.lock)
        if batch.cell & STATE_MASK != ACQUIRED or lock is None:
            raise _rejected(NOT_ACQUIRED)
        if lock.member_id != member_id:
            raise _rejected(NOT_OWNER)

    def _require_offsets(self, batch: InFlightBatch, member_id: str, start: int, stop: int) -> None:
        if batch.cells is None or batch.locks is None:
            return
        states = batch.cells[start:stop].translate(STATES)
        locks, find = batch.distinct_locks(start, stop), self._window.locks.find
        owned = {number for number in locks if (lock := find(number)) and lock.member_id == member_id}
        if states.count(ACQUIRED) == stop - start and owned == locks:
            return
        for index in range(start, stop):
            if states[index - start] != ACQUIRED:
                raise _rejected(OFFSET_NOT_ACQUIRED)
            if batch.locks[index] not in owned:
                raise _rejected(NOT_OWNER_OF_OFFSET)

    def _change(
        self, batch: InFlightBatch, start: int, stop: int, acknowledge_type: int
    ) -> list[tuple[Offset, Offset]]:
        first_offset, last_offset = batch.first_offset + start, batch.first_offset + stop - 1
        if acknowledge_type == _RENEW:
            return [(first_offset, last_offset)]
        self._window.complete_count += batch.change(start, stop, change_table(acknowledge_type, self._limit))
        self._note(first_offset, last_offset)
        return []

    def _change_each(self, batch: InFlightBatch, start: int, stop: int, types: bytes) -> list[tuple[Offset, Offset]]:
        """Change each record by its own type, all at once, by masks over integers."""
        cells, _ = batch.split()
        old = bytes(cells[start:stop])
        changed = 0
        for acknowledge_type in set(types):
            is_renew = acknowledge_type == _RENEW
            new = old if is_renew else old.translate(change_table(acknowledge_type, self._limit))
            mask = types.translate(_IS_TYPE[acknowledge_type])
            changed |= int.from_bytes(new, "little") & int.from_bytes(mask, "little")
        before = batch.complete_count(batch.first_offset + start, batch.first_offset + stop - 1)
        cells[start:stop] = changed.to_bytes(stop - start, "little")
        after = batch.complete_count(batch.first_offset + start, batch.first_offset + stop - 1)
        self._window.complete_count += after - before
        base = batch.first_offset + start
        is_renewed = types.translate(_IS_TYPE[_RENEW])
        if not any(is_renewed):
            self._note(base, base + stop - start - 1)
            return []
        renewed: list[tuple[Offset, Offset]] = []
        for run in RUNS.finditer(is_renewed):
            first, last = base + run.start(), base + run.end() - 1
            if run[1][0]:
                renewed.append((first, last))
            else:
                self._note(first, last)
        return renewed

    def _release_ended(self, batch: InFlightBatch, start: int, stop: int, ended: set[int]) -> None:
        table = release_table(self._limit)
        window = self._window
        if batch.locks is None:
            window.complete_count += batch.change(0, len(batch), table)
            batch.lock = NO_LOCK
        else:
            owned = bytes(map(ended.__contains__, batch.locks[start:stop]))
            for run in _OWNED_RUNS.finditer(owned):
                first, end = start + run.start(), start + run.end()
                window.complete_count += batch.change(first, end, table)
                _set_locks(batch, first, end, NO_LOCK)
        window.note_available(batch.first_offset + start if batch.cells is not None else batch.first_offset)


def _written_runs(batch: InFlightBatch, first_offset: Offset, last_offset: Offset) -> Iterator[tuple[int, int, int]]:
    """Yield first offset, last offset and cell of the runs in a range, as the share coordinator keeps them."""
    if batch.cells is None:
        if first_offset <= last_offset:
            yield first_offset, last_offset, WRITTEN[batch.cell]
        return
    # Runs are found in a copy: between two parts the window may change.
    for run in RUNS.finditer(batch.cells_between(first_offset, last_offset).translate(WRITTEN)):
        yield first_offset + run.start(), first_offset + run.end() - 1, run[1][0]


def _and(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left, "little") & int.from_bytes(right, "little")).to_bytes(len(left), "little")


def _select(mask: bytes, chosen: bytes, others: bytes) -> bytes:
    """Return the bytes of ``chosen`` where ``mask`` is 255, of ``others`` where it is 0."""
    both, base = int.from_bytes(mask, "little"), int.from_bytes(others, "little")
    return (base ^ ((base ^ int.from_bytes(chosen, "little")) & both)).to_bytes(len(mask), "little")


def _set_locks(batch: InFlightBatch, start: int, stop: int, lock: int) -> None:
    if batch.locks is None:
        batch.lock = lock
    else:
        batch.locks[start:stop] = array("I", (lock,)) * (stop - start)

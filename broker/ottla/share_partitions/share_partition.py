"""`SharePartition`: one partition as a share group consumes it: what is in flight, and with which member.

States: EMPTY, INITIALIZING while the share coordinator is read, ACTIVE, FAILED, FENCED. A failed or fenced one is
dropped by its manager; the next fetch creates another.

Source: SharePartition of Apache Kafka 4.3.1; KIP-932.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.errors import MESSAGES, ErrorCode, KafkaError
from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all
from ottla.purgatory.steps import Steps
from ottla.quoting import one_line, quoted
from ottla.share_partitions.acquisition import AcquiredRange, Acquirer, Acquisition, LogBatch
from ottla.share_partitions.in_flight_batch import InFlightBatch
from ottla.share_partitions.in_flight_window import InFlightWindow
from ottla.share_partitions.record_state import (
    ACKNOWLEDGED,
    ARCHIVE_ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    cell,
)
from ottla.share_partitions.settings import ShareGroupSettings
from ottla.share_partitions.share_partition_state import TRANSITIONS, SharePartitionState
from ottla.share_partitions.state_changes import StateChanges
from ottla.share_partitions.step_budget import StepBudget
from ottla.share_state.persister import (
    UNINITIALIZED_OFFSET,
    Persister,
    ReadState,
    SharePartitionKey,
    StateBatch,
    StateResult,
    StateWrite,
)
from ottla.types import LeaderEpoch, Offset

logger = logging.getLogger(__name__)

_EXPIRED_PER_CALL: Final = 1_024
_ARCHIVING: Final = 3
_LOADED_STATES: Final = {AVAILABLE: AVAILABLE, ACKNOWLEDGED: ACKNOWLEDGED, _ARCHIVING: ARCHIVED, ARCHIVED: ARCHIVED}
_NONE: Final = StateResult(ErrorCode.NONE)
_COORDINATOR_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_FENCING_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which the share-partition is dropped: it was deleted, or another node leads it."""


class AcknowledgementBatch(NamedTuple):
    """Acknowledge types of a range: one for all of its records, or one for each."""

    first_offset: Offset
    last_offset: Offset
    types: bytes


class SharePartition:
    """See the module.

    Args of the constructor:
        initial_offset: returns the start offset for a value of share.auto.offset.reset.
        on_available: called when records may have become available.
        on_fenced: called when this object must be dropped.
        run_later: runs what remains to do for a request whose client is gone.
        lock_generation: returns the generation of the locks of an acquisition or renewal.
        may_log: returns whether a line may be logged now.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        *,
        leader_epoch: LeaderEpoch,
        persister: Persister,
        settings: ShareGroupSettings,
        initial_offset: Callable[[str], Offset],
        on_available: Callable[[SharePartitionKey], object],
        on_fenced: Callable[["SharePartition"], object],
        run_later: Callable[[Steps[object]], object],
        lock_generation: Callable[[], int] = lambda: 0,
        may_log: Callable[[], bool] = lambda: True,
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.state = SharePartitionState.EMPTY
        self.state_epoch = 0
        self.window = InFlightWindow(0)
        self.loaded: Delayed[StateResult] = Delayed()
        """Completed when the share coordinator has been read."""
        self._persister = persister
        self._settings = settings
        self._initial_offset = initial_offset
        self._on_available = on_available
        self._on_fenced = on_fenced
        self._run_later = run_later
        self._lock_generation = lock_generation
        self._may_log = may_log

    # --- lifecycle

    def initialize(self) -> Delayed[StateResult]:
        """Read the state from the share coordinator, once; complete with NONE, or why it cannot be used."""
        if self.state is SharePartitionState.EMPTY:
            self._become(SharePartitionState.INITIALIZING)
            self._persister.read(self.key, leader_epoch=self.leader_epoch).on_complete(self._on_read)
        return self.loaded

    def _on_read(self, read: ReadState) -> None:
        if self.state is not SharePartitionState.INITIALIZING:
            return  # fenced meanwhile
        result = self._load(read)
        self._become(SharePartitionState.FAILED if result.error else SharePartitionState.ACTIVE)
        if result.error:
            self._warn("cannot read the state", result)
        self.loaded.complete(result)
        if result.error:
            self._on_fenced(self)

    def _load(self, read: ReadState) -> StateResult:
        if read.error:
            return StateResult(_COORDINATOR_ERRORS.get(read.error, ErrorCode.UNKNOWN_SERVER_ERROR), read.message)
        start_offset = read.start_offset
        if start_offset == UNINITIALIZED_OFFSET:
            try:
                start_offset = self._initial_offset(self._settings.auto_offset_reset(self.key.group_id))
            except KafkaError as error:
                return StateResult(error.code, error.message)
        window = InFlightWindow(start_offset)
        for batch in read.batches:
            if batch.first_offset < start_offset or batch.last_offset < batch.first_offset:
                if self._may_log():
                    logger.error("invalid state of share-partition %s: %s, start %d", self._label, batch, start_offset)
                return StateResult(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"Failed to initialize the share partition {self._label}"
                )
            value = cell(_LOADED_STATES.get(batch.delivery_state, AVAILABLE), batch.delivery_count)
            window.add(InFlightBatch(batch.first_offset, batch.last_offset, value))
        window.start_offset = start_offset
        if read.batches:
            window.loaded_until = window.end_offset
            window.is_next_in_window = True
        window.advance_start()
        self.window, self.state_epoch = window, read.state_epoch
        return _NONE

    def fence(self) -> None:
        """End it: another node leads the partition, or it was deleted."""
        if self.state is not SharePartitionState.FENCED:
            self._become(SharePartitionState.FENCED)
            self.loaded.complete(
                StateResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, MESSAGES.get(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            )

    def _become(self, state: SharePartitionState) -> None:
        assert (self.state, state) in TRANSITIONS, f"share-partition {self._label}: {self.state} cannot become {state}"
        self.state = state

    @property
    def is_active(self) -> bool:
        return self.state is SharePartitionState.ACTIVE

    @property
    def _label(self) -> str:
        return f"{quoted(self.key.group_id)}-{self.key.topic_id.hex()}-{self.key.partition}"

    def _warn(self, event: str, result: StateResult) -> None:
        if self._may_log():
            message = one_line(result.message or "")
            logger.warning("%s of share-partition %s: %s %s", event, self._label, ErrorCode(result.error).name, message)

    # --- acquisition

    def next_fetch_offset(self) -> Offset:
        return self.window.next_fetch_offset()

    def can_acquire(self) -> bool:
        """Return whether there is anything to acquire, or capacity for new records."""
        if not self.is_active:
            return False
        window = self.window
        if window.next_fetch_offset() != window.next_new_offset:
            return True
        return window.in_flight_count < self._settings.partition_max_record_locks(self.key.group_id)

    def acquire(
        self,
        member_id: str,
        batches: Sequence[LogBatch],
        *,
        fetch_offset: Offset,
        records_max: int,
        batch_size: int,
        is_record_limit: bool,
        now_ms: int,
    ) -> list[AcquiredRange]:
        """Acquire records for a member, of ``batches`` that were read at ``fetch_offset``."""
        if not self.is_active:
            return []
        group_id, settings = self.key.group_id, self._settings
        wanted = Acquisition(
            member_id=member_id,
            deadline_ms=now_ms + settings.record_lock_duration_ms(group_id),
            records_max=records_max,
            batch_size=max(batch_size, 1),
            in_flight_max=settings.partition_max_record_locks(group_id),
            delivery_count_limit=settings.delivery_count_limit(group_id),
            is_record_limit=is_record_limit,
        )
        self.window.locks.generation = self._lock_generation()
        return Acquirer(self.window, wanted, batches).acquire(fetch_offset)

    def archive_acquired(self, first_offset: Offset, last_offset: Offset) -> None:
        """Archive records that were acquired just now: they belong to aborted transactions."""
        window = self.window
        for batch in window.overlapping(first_offset, last_offset):
            start, stop = batch.indexes(max(first_offset, window.start_offset), last_offset)
            if start < stop:
                window.complete_count += batch.change(start, stop, ARCHIVE_ACQUIRED)
                self._changes().release_locks(batch, start, stop)

    # --- acknowledgement

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], *, now_ms: int
    ) -> Steps[Delayed[StateResult]]:
        """Apply all acknowledgements or none, in slices; the result is complete once they are written."""
        changes, budget = self._changes(), StepBudget()
        renewed: list[tuple[Offset, Offset]] = []
        undo = changes.roll_back_in_steps()
        is_ended = False
        try:
            try:
                for each in batches:
                    if budget.spend(0):
                        yield None
                    if each.last_offset >= self.window.start_offset:
                        renewed += yield from self._acknowledge_batch(changes, member_id, each, budget)
            except KafkaError as error:
                for _ in undo:
                    yield None
                is_ended = True
                return Delayed.of(StateResult(error.code, error.message))
            is_ended = True
        finally:
            if not is_ended:
                # The client is gone, and these steps with it.
                self._run_later(_as_steps(undo))
        written = yield from self._write(changes)
        yield from self._renew(member_id, renewed, now_ms)
        return written

    def _acknowledge_batch(
        self, changes: StateChanges, member_id: str, each: AcknowledgementBatch, budget: StepBudget
    ) -> Steps[list[tuple[Offset, Offset]]]:
        renewed: list[tuple[Offset, Offset]] = []
        for batch in self._batches_of(each):
            start, stop = batch.indexes(each.first_offset, each.last_offset)
            if budget.spend(0 if batch.cells is None and len(each.types) == 1 else stop - start):
                yield None
            if batch.last_offset < self.window.start_offset:
                continue
            renewed += changes.acknowledge(batch, member_id, each.first_offset, each.last_offset, each.types)
        if renewed and not self._settings.is_renew_enabled(self.key.group_id):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        return renewed

    def _batches_of(self, each: AcknowledgementBatch) -> list[InFlightBatch]:
        """Return the batches in flight that an acknowledgement is about."""
        window = self.window
        floor = window.floor(each.first_offset)
        if floor is None and each.first_offset < window.start_offset <= each.last_offset:
            floor = window.floor(window.start_offset)
        if floor is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        found = window.between(floor.first_offset, each.last_offset)
        if found[-1].last_offset < each.first_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The first offset in request is past acquired records.",
            )
        if found[-1].last_offset < each.last_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Batch record not found. The last offset in request is past acquired records.",
            )
        return [batch for batch in found if batch.last_offset >= each.first_offset]

    def _renew(self, member_id: str, ranges: list[tuple[Offset, Offset]], now_ms: int) -> Steps[None]:
        deadline_ms = now_ms + self._settings.record_lock_duration_ms(self.key.group_id)
        changes = self._changes()
        for first_offset, last_offset in ranges:
            self.window.locks.generation = self._lock_generation()
            yield from changes.renew(first_offset, last_offset, member_id, deadline_ms)

    def release_member(self, member_id: str, *, older_than: int) -> Steps[Delayed[StateResult]]:
        """Release what a member has acquired: it has left, or its session or connection has ended.

        The member may have returned meanwhile: its locks of generation ``older_than`` and above stay.
        """
        changes, budget = self._changes(), StepBudget()
        for lock in self.window.locks.of_member(member_id):
            if lock.generation >= older_than:
                continue
            for batch in self.window.overlapping(lock.first_offset, lock.last_offset):
                changes.release(batch, lock)
            if budget.spend(lock.last_offset - lock.first_offset + 1):
                yield None
        return (yield from self._write(changes))

    # --- time, retention

    def due_ms(self) -> int:
        """Return the time of the next acquisition lock that ends."""
        return self.window.locks.due_ms()

    def expire_locks(self, now_ms: int) -> Steps[int]:
        """Release records whose lock has timed out: some of them, and the others at the next call; return how many."""
        changes, window, budget, count = self._changes(), self.window, StepBudget(), 0
        for _ in range(_EXPIRED_PER_CALL):
            lock = window.locks.pop_expired(now_ms)
            if lock is None:
                break
            for batch in window.overlapping(lock.first_offset, lock.last_offset):
                count += changes.expire(batch, lock)
            if budget.spend(lock.last_offset - lock.first_offset + 1):
                yield None
        if not len(changes):
            return count
        for _, batches in changes.writes():
            self._send(batches).on_complete(self._on_expiry_written)
            yield None
        window.advance_start()
        self._on_available(self.key)
        return count

    def _on_expiry_written(self, result: StateResult) -> None:
        if result.error:
            # The coordinator still has the records as available, with a lower delivery count.
            self._warn("cannot write timed out records", result)
            self._fence_if(result)

    def on_log_start(self, log_start_offset: Offset) -> None:
        """Move the start offset up to the log's."""
        if self.is_active and log_start_offset > self.window.start_offset:
            self.window.raise_start(log_start_offset)

    # --- writes

    def _changes(self) -> StateChanges:
        return StateChanges(self.window, self._settings.delivery_count_limit(self.key.group_id))

    def _write(self, changes: StateChanges) -> Steps[Delayed[StateResult]]:
        """Write the changes; each part becomes final, or is rolled back, when it has been written."""
        parts = changes.writes()
        written: list[Delayed[StateResult]] = []
        is_ended = False
        try:
            for part, batches in parts:
                written.append(self._write_part(part, batches))
                yield None
            is_ended = True
        finally:
            if not is_ended:
                # The client is gone, and these steps with it: what has been changed must become final all the same.
                self._run_later(self._write_rest(parts))
        return written[0] if len(written) == 1 else when_all(written).then(_first_error)

    def _write_rest(self, parts: Iterator[tuple[StateChanges, tuple[StateBatch, ...]]]) -> Steps[None]:
        for part, batches in parts:
            self._write_part(part, batches)
            yield None

    def _write_part(self, part: StateChanges, batches: tuple[StateBatch, ...]) -> Delayed[StateResult]:
        done: Delayed[StateResult] = Delayed()
        self._send(batches).on_complete(partial(self._on_written, part, done))
        return done

    def _send(self, batches: tuple[StateBatch, ...]) -> Delayed[StateResult]:
        write = StateWrite(
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.window.start_offset,
            delivery_complete_count=self.window.complete_count,
            batches=batches,
        )
        return self._persister.write(self.key, write)

    def _on_written(self, part: StateChanges, done: Delayed[StateResult], result: StateResult) -> None:
        if result.error:
            part.roll_back()
            error = _COORDINATOR_ERRORS.get(result.error, ErrorCode.UNKNOWN_SERVER_ERROR)
            result = StateResult(error, result.message or MESSAGES.get(error))
            self._fence_if(result)
        else:
            part.finish()
        self.window.advance_start()
        done.complete(result)
        self._on_available(self.key)

    def _fence_if(self, result: StateResult) -> None:
        if _COORDINATOR_ERRORS.get(result.error, result.error) in _FENCING_ERRORS:
            self._on_fenced(self)


def _as_steps(steps: Iterator[None]) -> Steps[None]:
    for _ in steps:
        yield None


def _first_error(results: list[StateResult]) -> StateResult:
    return next((result for result in results if result.error), _NONE)

"""`RecordingPersister`: a Persister that keeps states in memory, and records its calls; its results may be delayed."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.share_state.batches import combine
from ottla.share_state.persister import (
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    ReadState,
    SharePartitionKey,
    StateBatch,
    StateResult,
    StateSummary,
    StateWrite,
)
from ottla.types import LeaderEpoch, Offset


@dataclass
class Write:
    """A write that waits for its result."""

    key: SharePartitionKey
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    result: Delayed[StateResult] = field(default_factory=Delayed)


@dataclass
class RecordingPersister:
    """See the module.

    Attributes:
        is_held: whether results wait: for `release`, those of writes for `complete`, those of reads for the test.
        error: of each request but reads; the state does not change.
        calls: name and key of each request, in order.
        states: state epoch and start offset of each share-partition, as the group coordinator has set them.
        failing: partitions that cannot be initialized.
        complete_count: delivery complete count of each summary.
        read_error: of each read.
        state_epoch: of each read.
        start_offset: of each read: the highest one of the writes.
        records: what has been written, per offset, as state and delivery count; of one share-partition at a time.
        reads: results of all reads.
        writes: those that wait.
        written: the batches of all successful writes.
    """

    is_held: bool = False
    error: ErrorCode = ErrorCode.NONE
    calls: list[tuple[str, SharePartitionKey]] = field(default_factory=list)
    states: dict[SharePartitionKey, tuple[int, Offset]] = field(default_factory=dict)
    failing: set[int] = field(default_factory=set)
    complete_count: int = UNKNOWN_COUNT
    read_error: ErrorCode = ErrorCode.NONE
    state_epoch: int = 1
    start_offset: Offset = UNINITIALIZED_OFFSET
    records: dict[Offset, tuple[int, int]] = field(default_factory=dict)
    reads: list[Delayed[ReadState]] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    written: list[StateBatch] = field(default_factory=list)
    _held: list[tuple[Delayed[StateResult], StateResult]] = field(default_factory=list)

    # --- requests of the group coordinator

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: Offset) -> Delayed[StateResult]:
        self.calls.append(("initialize", key))
        if key.partition in self.failing:
            return Delayed.of(StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        if self.error is ErrorCode.NONE:
            self.states[key] = (state_epoch, start_offset)
        return self._result()

    def delete(self, key: SharePartitionKey) -> Delayed[StateResult]:
        self.calls.append(("delete", key))
        if self.error is ErrorCode.NONE:
            self.states.pop(key, None)
        return self._result()

    def read_summary(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[StateSummary]:
        self.calls.append(("read_summary", key))
        if self.error is not ErrorCode.NONE:
            return Delayed.of(StateSummary(self.error))
        state = self.states.get(key)
        if state is None:
            return Delayed.of(StateSummary(ErrorCode.NONE))
        return Delayed.of(StateSummary(ErrorCode.NONE, None, state[0], 0, state[1], self.complete_count))

    def release(self) -> None:
        """Deliver the delayed results, and delay no more."""
        self.is_held = False
        held, self._held = self._held, []
        for delayed, result in held:
            delayed.complete(result)

    def _result(self) -> Delayed[StateResult]:
        result = StateResult(self.error)
        if not self.is_held:
            return Delayed.of(result)
        delayed: Delayed[StateResult] = Delayed()
        self._held.append((delayed, result))
        return delayed

    # --- requests of the leader of a share-partition

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        self.calls.append(("read", key))
        written = [StateBatch(offset, offset, *each) for offset, each in sorted(self.records.items())]
        batches = tuple(StateBatch(*each) for each in combine((), written, self.start_offset))
        result: Delayed[ReadState] = Delayed()
        self.reads.append(result)
        if not self.is_held:
            result.complete(
                ReadState(
                    self.read_error,
                    state_epoch=self.state_epoch,
                    start_offset=self.start_offset,
                    batches=batches,
                )
            )
        return result

    def write(self, key: SharePartitionKey, write: StateWrite) -> Delayed[StateResult]:
        self.calls.append(("write", key))
        recorded = Write(key, write.start_offset, write.delivery_complete_count, write.batches)
        self.writes.append(recorded)
        if not self.is_held:
            self.complete(self.writes.pop(), self.error)
        return recorded.result

    def complete(self, write: Write, error: ErrorCode = ErrorCode.NONE) -> None:
        """Respond to a write; without an error its records are stored."""
        if error is ErrorCode.NONE:
            self.start_offset = max(self.start_offset, write.start_offset)
            self.written += write.batches
            for batch in write.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.records[offset] = (batch.delivery_state, batch.delivery_count)
        write.result.complete(StateResult(error, None if error is ErrorCode.NONE else error.name))

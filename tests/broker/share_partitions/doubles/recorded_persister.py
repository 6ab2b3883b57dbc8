"""`RecordedPersister`: a Persister that notes its calls and completes them when the test says so."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.share_state.batches import combine
from ottla.share_state.persister import (
    UNINITIALIZED_OFFSET,
    ReadState,
    SharePartitionKey,
    StateBatch,
    StateResult,
    StateSummary,
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


class RecordedPersister:
    """See the module. ``records``: what has been written, per offset, as state and delivery count."""

    def __init__(self, *, is_immediate: bool = False) -> None:
        self.is_immediate = is_immediate
        self.writes: list[Write] = []
        self.reads: list[Delayed[ReadState]] = []
        self.state_epoch = 1
        self.start_offset: Offset = UNINITIALIZED_OFFSET
        self.records: dict[Offset, tuple[int, int]] = {}
        self.read_error = self.error = ErrorCode.NONE
        self.written: list[StateBatch] = []

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: Offset) -> Delayed[StateResult]:
        raise NotImplementedError

    def delete(self, key: SharePartitionKey) -> Delayed[StateResult]:
        raise NotImplementedError

    def read_summary(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[StateSummary]:
        raise NotImplementedError

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        written = [StateBatch(offset, offset, *each) for offset, each in sorted(self.records.items())]
        batches = tuple(StateBatch(*each) for each in combine((), written, self.start_offset))
        result: Delayed[ReadState] = Delayed()
        self.reads.append(result)
        if self.is_immediate:
            result.complete(
                ReadState(
                    self.read_error,
                    state_epoch=self.state_epoch,
                    start_offset=self.start_offset,
                    batches=batches,
                )
            )
        return result

    def write(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> Delayed[StateResult]:
        write = Write(key, start_offset, delivery_complete_count, batches)
        self.writes.append(write)
        if self.is_immediate:
            self.complete(self.writes.pop(), self.error)
        return write.result

    def complete(self, write: Write, error: ErrorCode = ErrorCode.NONE) -> None:
        """Respond to a write; without an error its records are stored."""
        if error is ErrorCode.NONE:
            self.start_offset = max(self.start_offset, write.start_offset)
            self.written += write.batches
            for batch in write.batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.records[offset] = (batch.delivery_state, batch.delivery_count)
        write.result.complete(StateResult(error, None if error is ErrorCode.NONE else error.name))

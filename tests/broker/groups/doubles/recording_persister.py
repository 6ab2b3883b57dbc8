"""A persister that keeps start offsets in memory, and records its calls; its results may be delayed."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.share_state.persister import (
    UNKNOWN_COUNT,
    ReadState,
    SharePartitionKey,
    StateBatch,
    StateResult,
    StateSummary,
)
from ottla.types import LeaderEpoch, Offset


@dataclass
class RecordingPersister:
    """`Persister` of the tests of share groups.

    Attributes:
        states: state epoch and start offset of each share-partition.
        calls: name and key, in order.
        error: of each request; the state does not change.
        failing: partitions that cannot be initialized.
        is_held: whether results wait for `release`.
        complete_count: delivery complete count of each summary.
    """

    states: dict[SharePartitionKey, tuple[int, Offset]] = field(default_factory=dict)
    calls: list[tuple[str, SharePartitionKey]] = field(default_factory=list)
    error: ErrorCode = ErrorCode.NONE
    failing: set[int] = field(default_factory=set)
    is_held: bool = False
    complete_count: int = UNKNOWN_COUNT
    _held: list[tuple[Delayed[StateResult], StateResult]] = field(default_factory=list)

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

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        raise AssertionError("the group coordinator reads no states")

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
        raise AssertionError("the group coordinator writes no states")

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

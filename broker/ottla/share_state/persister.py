"""`Persister`: the state of share-partitions, as leaders and group coordinators write it and read it back.

A share-partition is a partition as one share group consumes it. The state is kept by share coordinators, in
``__share_group_state``. A write with an old state epoch or leader epoch is rejected, so that a former leader changes
nothing.

Source: Persister, PersisterStateBatch of Apache Kafka 4.3.1; KIP-932.
"""

from typing import NamedTuple, Protocol, TypeAlias

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.types import LeaderEpoch, Offset, Uuid

UNINITIALIZED_OFFSET = -1
"""Start offset of a share-partition that no member has read yet: ``share.auto.offset.reset`` decides."""
UNKNOWN_COUNT = -1
"""Delivery complete count that the sender does not know: it is from before ``share.version`` had it."""


class SharePartitionKey(NamedTuple):
    """The share-partition that a state belongs to."""

    group_id: str
    topic_id: Uuid
    partition: int


class StateBatch(NamedTuple):
    """Records from ``first_offset`` to ``last_offset``, both included, in one state.

    ``delivery_state`` is 0 available, 2 acknowledged, 3 archiving, 4 archived as in Kafka; acquired records are kept as
    available. ``delivery_count`` is how often they were delivered.
    """

    first_offset: Offset
    last_offset: Offset
    delivery_state: int
    delivery_count: int

    @property
    def unknown_tags(self) -> None:
        """Return None: messages are encoded with these batches in place of their structs, which have equal fields."""


class StateWrite(NamedTuple):
    """A change of the state by the leader of the partition; ``start_offset`` -1 leaves the start where it is."""

    state_epoch: int
    leader_epoch: LeaderEpoch
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class StateResult(NamedTuple):
    """Result of a change; ``message`` is Kafka's, None for none."""

    error: ErrorCode
    message: str | None = None


class ReadState(NamedTuple):
    """The state of a share-partition; only the error and its message mean something if there is an error."""

    error: ErrorCode
    message: str | None = None
    state_epoch: int = 0
    start_offset: Offset = UNINITIALIZED_OFFSET
    batches: tuple[StateBatch, ...] = ()


class StateSummary(NamedTuple):
    """Summary of a share-partition for lists; only the error and its message mean something if there is an error."""

    error: ErrorCode
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: LeaderEpoch = 0
    start_offset: Offset = UNINITIALIZED_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT


Result: TypeAlias = StateResult | ReadState | StateSummary


class Persister(Protocol):
    """Requests to share coordinators, repeated where Kafka repeats them. Implemented by `share_state.client`.

    A result may be an error of the coordinator (FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION,
    ...) or, after the last try, COORDINATOR_NOT_AVAILABLE or REQUEST_TIMED_OUT. Requests for one share-partition are
    carried out in the order of the calls, apart from `read_summary`.
    """

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: Offset) -> Delayed[StateResult]:
        """Create the state, or reset it to ``start_offset`` under a newer state epoch."""

    def read(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[ReadState]:
        """Read the state for a new leader; older leaders are fenced from now on."""

    def read_summary(self, key: SharePartitionKey, *, leader_epoch: LeaderEpoch) -> Delayed[StateSummary]:
        """Read without batches; -1 as ``leader_epoch`` fences no leader."""

    def write(self, key: SharePartitionKey, write: StateWrite) -> Delayed[StateResult]:
        """Merge ``write`` into the state."""

    def delete(self, key: SharePartitionKey) -> Delayed[StateResult]:
        """Remove the state; no error if there is none."""

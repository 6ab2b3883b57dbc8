"""A change of the in-sync set that a leader has proposed to the controller.

While it is pending the leader counts with the larger of the two sets (the maximal ISR): a replica that is about to join
must have a record before it is committed, and so must one that is about to leave. One change per partition is pending
at a time.

Source: PendingExpandIsr and PendingShrinkIsr of Apache Kafka 4.3; KIP-497, KIP-903.
"""

from dataclasses import dataclass
from enum import Enum

from ottla.types import LeaderEpoch, NodeId, Uuid


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IsrChange:
    """One proposal; compared by identity. ``broker_epochs`` corresponds to ``isr``, index by index; -1 is unknown."""

    topic_id: Uuid
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]
    maximal: tuple[NodeId, ...]

    @property
    def is_expansion(self) -> bool:
        return self.isr == self.maximal


class IsrOutcome(Enum):
    """Result of a proposal."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    """Certainly not applied: the last committed set holds, and another change may be proposed."""
    AWAITS_METADATA = "awaits metadata"
    """This leader is behind the controller; the change stays pending until the metadata log has the result."""
    RETRY = "retry"
    IGNORED = "ignored"
    """The partition has changed since it was proposed."""

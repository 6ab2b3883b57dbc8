"""A change of the in-sync set that a leader has asked the controller for.

While it is pending the leader counts with the larger of the two sets (the maximal ISR): whoever is on its way in must
have a record before it is committed, and so must who is on its way out. One change per partition is pending at a time.

Source: PendingExpandIsr and PendingShrinkIsr of Apache Kafka 4.3; KIP-497, KIP-903.
"""

from dataclasses import dataclass
from enum import Enum

from ottla.types import LeaderEpoch, NodeId, Uuid


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class IsrChange:
    """One proposal; compared by identity. ``broker_epochs`` goes with ``isr``, place by place; -1 is not known."""

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
    """What became of a proposal."""

    COMMITTED = "committed"
    REJECTED = "rejected"
    """Surely not carried out: the last committed set holds, and another change may be proposed."""
    AWAITS_METADATA = "awaits metadata"
    """This leader is behind the controller; the change stays pending until the metadata log says how things are."""
    RETRY = "retry"
    IGNORED = "ignored"
    """The partition has moved on since it was proposed."""

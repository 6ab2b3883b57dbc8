"""`ConsumerMember`: one member of a consumer group, immutable, and the states of its reconciliation.

Source: ConsumerGroupMember, MemberState of Apache Kafka 4.3; KIP-848.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, TypeAlias

from ottla.types import Uuid
from ottla.wire.messages.group_log import ClassicMemberMetadata

NOT_SET: Final = -1
SUBSCRIBED_TOPICS_MAX: Final = 10_000
"""Topics that one member may name: so many take the loop 12 to 14 ms (docs/limits.md)."""

EpochAssignment: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""By topic and partition: the group's epoch in which the partition was assigned to the member (KIP-1251)."""

NO_PARTITIONS: Final[EpochAssignment] = {}


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the values are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before it may have the target's epoch."""
    UNRELEASED_PARTITIONS = 2
    """It has the target's epoch and waits for partitions that their previous owners have not revoked yet."""
    UNKNOWN = 127
    """A state that a later release has written."""

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member.

    Attributes:
        member_epoch: the epoch that the member received last; `LEAVE_STATIC_EPOCH` while a static member is away.
        previous_member_epoch: the one before, accepted once more because the response may have been lost.
        subscribed_topic_names: sorted, each once.
        subscribed_topic_regex: RE2; empty for none.
        assigned: partitions that it may read.
        pending_revocation: partitions that it has to revoke, and owns until then.
        classic: of a member that uses the classic protocol; None for the consumer protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_SET
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: EpochAssignment = field(default_factory=dict)
    pending_revocation: EpochAssignment = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has exactly the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def owned_partitions(self) -> dict[Uuid, set[int]]:
        """Return the partitions that the member may read, and those that it has still to revoke."""
        owned: dict[Uuid, set[int]] = {}
        for assignment in (self.assigned, self.pending_revocation):
            for topic_id, partitions in assignment.items():
                owned.setdefault(topic_id, set()).update(partitions)
        return owned

    def assignment_epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch in which a partition was assigned, also one that must be revoked; None if it has neither."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def moved_to(
        self,
        state: MemberState,
        member_epoch: int,
        assigned: EpochAssignment,
        pending_revocation: EpochAssignment = NO_PARTITIONS,
    ) -> "ConsumerMember":
        """Return the member in another state, with its epoch so far as the previous one."""
        return replace(
            self,
            state=state,
            member_epoch=member_epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

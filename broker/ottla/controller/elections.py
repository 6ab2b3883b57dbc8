"""`PartitionChange`: one partition's next in-sync set, leader and eligible leaders, as a change record.

How a leader is chosen, in this order:

1. The present leader stays if it may lead and is in sync (unless the preferred replica is asked for).
2. The first replica, in assignment order, that may lead and is in sync; with an empty in-sync set (KIP-966) one of
   the eligible leader replicas, which have everything that was committed.
3. The last known leader, when it is the only one left to ask and may lead: records may be lost.
4. Any replica that may lead, only where unclean elections are allowed: records may be lost.
5. Nobody.

After 3 and 4 the leader starts as `RECOVERING`.

Source: PartitionChangeBuilder of Apache Kafka 4.3; KIP-704, KIP-966.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.metadata.metadata_version import RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, NO_LEADER_CHANGE, RECOVERING, PartitionRegistration
from ottla.types import NodeId, Uuid
from ottla.wire.messages.metadata_log import PartitionChangeRecord


class Election(Enum):
    """How far to go for a leader."""

    PREFERRED = "preferred"
    """Prefer the first replica of the assignment over the present leader."""
    ONLINE = "online"
    UNCLEAN = "unclean"
    """Take a replica that may have lost committed records rather than none."""


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """A change in the making; `to_record` decides.

    Attributes:
        may_lead: whether a broker is up and has the replica's directory.
        min_isr: effective min.insync.replicas of the topic.
        elr_enabled: whether eligible leader replicas are kept.
        isr: the in-sync set to come; None keeps it.
        unclean_shutdown: replicas that may have lost what they had, though they were in sync.
        leader_recovery_state: the state to come; None keeps it.
    """

    topic_id: Uuid
    partition_id: int
    partition: PartitionRegistration
    may_lead: Callable[[NodeId], bool]
    min_isr: int
    elr_enabled: bool
    election: Election = Election.ONLINE
    isr: Sequence[NodeId] | None = None
    unclean_shutdown: frozenset[NodeId] = frozenset()
    leader_recovery_state: int | None = None

    def to_record(self, versions: RecordVersions) -> MetadataRecord | None:
        """Return the record that makes the change; None when nothing changes."""
        before = self.partition
        isr = list(before.isr if self.isr is None else self.isr)
        elr = self._next_elr(isr)
        leader, is_unclean = self._elect(isr, elr)
        recovery_state = (
            before.leader_recovery_state if self.leader_recovery_state is None else self.leader_recovery_state
        )
        if is_unclean:
            isr, elr, recovery_state = [leader], [], RECOVERING
        elif leader != NO_LEADER and leader not in isr:
            isr, elr = [leader], [replica for replica in elr if replica != leader]
        record = PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        if leader != before.leader:
            record.leader = leader
        if (isr or self.elr_enabled) and tuple(isr) != before.isr:
            record.isr = isr
        if set(elr) != set(before.elr):
            record.eligible_leader_replicas = elr
        self._set_last_known_leader(record)
        if recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = recovery_state
        if record == PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id):
            return None
        return MetadataRecord(record, versions.partition_change)

    def _next_elr(self, isr: list[NodeId]) -> list[NodeId]:
        """Return who has every committed record without being in sync: those that left while too few were left."""
        before = self.partition
        if not self.elr_enabled or len(isr) >= min(self.min_isr, len(before.replicas)):
            return []
        candidates = set(before.elr) | set(before.isr)
        return sorted(candidates - set(isr) - self.unclean_shutdown)

    def _elect(self, isr: list[NodeId], elr: list[NodeId]) -> tuple[NodeId, bool]:
        """Return the leader to be, and whether records may be lost by that."""
        before = self.partition

        def is_clean(replica: NodeId) -> bool:
            return (replica in isr or (not isr and replica in elr)) and self.may_lead(replica)

        if self.election is Election.PREFERRED and is_clean(before.preferred_replica):
            return before.preferred_replica, False
        if before.leader != NO_LEADER and is_clean(before.leader):
            return before.leader, False
        for replica in before.replicas:
            if is_clean(replica):
                return replica, False
        if self._may_elect_last_known(elr):
            return before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in before.replicas:
                if self.may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_elect_last_known(self, elr: list[NodeId]) -> bool:
        known = self.partition.last_known_elr
        return self.elr_enabled and not elr and len(known) == 1 and self.may_lead(known[0])

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Remember the leader of a partition that loses its last one; forget it when there is a leader again."""
        if not self.elr_enabled:
            return
        before = self.partition
        becomes_leaderless = record.isr is not None and not record.isr
        if becomes_leaderless and before.leader != NO_LEADER and before.last_known_elr != (before.leader,):
            record.last_known_elr = [before.leader]
        elif before.last_known_elr:
            keeps_leader = before.leader != NO_LEADER and record.leader == NO_LEADER_CHANGE
            if record.leader >= 0 or keeps_leader:
                record.last_known_elr = []

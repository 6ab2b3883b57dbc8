"""`PartitionChange`: one partition's next replicas, in-sync set, leader and eligible leaders, as a change record.

First a reassignment that has finished is completed: the adding replicas are in sync, so the removing ones are removed.
When more are removed than added, all remaining replicas must be in sync. Then a leader is elected, in this order:

1. The current leader stays if it may lead and is in sync (unless the preferred replica is requested).
2. The first replica, in assignment order, that may lead and is in sync; with an empty in-sync set (KIP-966) one of
   the eligible leader replicas, which have everything that was committed.
3. The last known leader, which is the last one that was seen alive (`last_known_leaders`), when it is the only
   candidate left and may lead: records may be lost.
4. Any replica that may lead, only where unclean elections are allowed: records may be lost.
5. No leader.

After 3 and 4 the leader starts as `RECOVERING`.

Source: PartitionChangeBuilder and PartitionReassignmentReplicas of Apache Kafka 4.3; KIP-455, KIP-704, KIP-966. Kafka
also keeps replicas eligible that a reassignment has removed from the partition, and that never lead; here they are
removed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla.metadata.metadata_version import RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, RECOVERING, PartitionRegistration
from ottla.types import NodeId, Uuid
from ottla.wire.messages.metadata_log import PartitionChangeRecord


class Election(Enum):
    """Constraints of an election."""

    PREFERRED = "preferred"
    """Prefer the first replica of the assignment over the current leader."""
    ONLINE = "online"
    UNCLEAN = "unclean"
    """Take a replica that may have lost committed records rather than none."""


@dataclass(slots=True)
class _Target:
    """The partition after the change."""

    replicas: list[NodeId]
    removing: list[NodeId]
    adding: list[NodeId]
    isr: list[NodeId]

    def complete_reassignment(self) -> None:
        """Finish a reassignment that has no replica left to wait for; otherwise change nothing."""
        if not self.removing and not self.adding:
            return
        isr = [replica for replica in self.isr if replica not in self.removing]
        replicas = [replica for replica in self.replicas if replica not in self.removing]
        awaited = replicas if len(self.adding) < len(self.removing) else self.adding
        if isr and replicas and set(awaited) <= set(isr):
            self.replicas, self.isr, self.removing, self.adding = replicas, isr, [], []


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """A change under construction; `to_record` builds it. An attribute that is None leaves its field unchanged.

    Attributes:
        may_lead: whether a broker is active and the replica's directory online.
        min_isr: effective min.insync.replicas of the topic.
        elr_enabled: whether eligible leader replicas are kept.
        default_directory: the log directory of a new replica on a broker, as far as it is known.
        isr: the new in-sync set.
        unclean_shutdown: replicas that may have lost records, though they were in sync.
        leader_recovery_state: the new recovery state.
        replicas: the new assignment, including removing replicas.
        removing_replicas: replicas to be removed.
        adding_replicas: replicas to be added.
        directories: by broker, a newly known log directory.
        last_seen_leader: the last leader that was seen alive, if that is not the current one; None: it is.
    """

    topic_id: Uuid
    partition_id: int
    partition: PartitionRegistration
    may_lead: Callable[[NodeId], bool]
    min_isr: int
    elr_enabled: bool
    default_directory: Callable[[NodeId], Uuid]
    election: Election = Election.ONLINE
    isr: Sequence[NodeId] | None = None
    unclean_shutdown: frozenset[NodeId] = frozenset()
    leader_recovery_state: int | None = None
    replicas: Sequence[NodeId] | None = None
    removing_replicas: Sequence[NodeId] | None = None
    adding_replicas: Sequence[NodeId] | None = None
    directories: Mapping[NodeId, Uuid] = field(default_factory=dict)
    last_seen_leader: NodeId | None = None

    def to_record(self, versions: RecordVersions) -> MetadataRecord | None:
        """Return the change record; None when nothing changes."""
        before = self.partition
        target = self._target()
        target.complete_reassignment()
        elr = self._next_elr(target)
        leader, is_unclean = self._elect(target, elr)
        recovery_state = (
            before.leader_recovery_state if self.leader_recovery_state is None else self.leader_recovery_state
        )
        if is_unclean:
            target.isr, elr, recovery_state = [leader], [], RECOVERING
        elif leader != NO_LEADER and leader not in target.isr:
            target.isr, elr = [leader], [replica for replica in elr if replica != leader]
        record = PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        if leader != before.leader:
            record.leader = leader
        if (target.isr or self.elr_enabled) and tuple(target.isr) != before.isr:
            record.isr = target.isr
        if not self.elr_enabled and target.isr:
            elr = []
        if set(elr) != set(before.elr):
            record.eligible_leader_replicas = elr
        self._bump_leader_epoch(record, target, versions)
        self._set_last_known_leader(record)
        self._set_assignment(record, target, versions)
        if recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = recovery_state
        return None if _is_empty(record) else MetadataRecord(record, versions.partition_change)

    def _target(self) -> _Target:
        before = self.partition
        return _Target(
            replicas=list(before.replicas if self.replicas is None else self.replicas),
            removing=list(before.removing_replicas if self.removing_replicas is None else self.removing_replicas),
            adding=list(before.adding_replicas if self.adding_replicas is None else self.adding_replicas),
            isr=list(before.isr if self.isr is None else self.isr),
        )

    def _next_elr(self, target: _Target) -> list[NodeId]:
        """Return replicas with every committed record that are not in sync: they left while too few were left.

        After the feature was switched off, known ones still count until a replica is in sync again.
        """
        before = self.partition
        if not self.elr_enabled:
            return [replica for replica in before.elr if replica not in self.unclean_shutdown]
        if len(target.isr) >= min(self.min_isr, len(before.replicas)):
            return []
        candidates = set(before.elr) | set(before.isr)
        return sorted((candidates & set(target.replicas)) - set(target.isr) - self.unclean_shutdown)

    def _elect(self, target: _Target, elr: list[NodeId]) -> tuple[NodeId, bool]:
        """Return the new leader, and whether records may be lost by the election."""
        before, isr = self.partition, target.isr

        def is_clean(replica: NodeId) -> bool:
            return (replica in isr or (not isr and replica in elr)) and self.may_lead(replica)

        if self.election is Election.PREFERRED and is_clean(target.replicas[0]):
            return target.replicas[0], False
        if before.leader != NO_LEADER and is_clean(before.leader):
            return before.leader, False
        for replica in target.replicas:
            if is_clean(replica):
                return replica, False
        if self._may_elect_last_known(target, elr):
            return before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for replica in target.replicas:
                if self.may_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _may_elect_last_known(self, target: _Target, elr: list[NodeId]) -> bool:
        known = self.partition.last_known_elr
        if not self.elr_enabled or elr or target.isr or len(known) != 1:
            return False
        return known[0] in target.replicas and self.may_lead(known[0])

    def _bump_leader_epoch(self, record: PartitionChangeRecord, target: _Target, versions: RecordVersions) -> None:
        """Start a new leader epoch under the same leader, if followers of the old one must not continue.

        That applies to removed replicas, and below metadata.version 3.6 to those that fell out of sync.
        """
        if record.leader != NO_LEADER_CHANGE:
            return
        before = self.partition
        loses_replica = not set(before.replicas) <= set(target.replicas)
        loses_isr = record.isr is not None and not set(before.isr) <= set(record.isr)
        if loses_replica or (loses_isr and versions.bumps_leader_epoch_on_isr_shrink):
            record.leader = before.leader

    def _set_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Set the last leader seen alive when a partition loses its leader; clear it when there is one again."""
        if not self.elr_enabled:
            return
        before = self.partition
        if record.leader == NO_LEADER and before.leader != NO_LEADER:
            # Also over one that was set before the feature was switched off and on again.
            record.last_known_elr = [before.leader if self.last_seen_leader is None else self.last_seen_leader]
        elif record.leader >= 0 and before.last_known_elr:
            record.last_known_elr = []

    def _set_assignment(self, record: PartitionChangeRecord, target: _Target, versions: RecordVersions) -> None:
        before = self.partition
        if versions.supports_directories and (self.directories or tuple(target.replicas) != before.replicas):
            known = {**dict(zip(before.replicas, before.directories, strict=True)), **self.directories}
            directories = [
                known[replica] if replica in known else self.default_directory(replica) for replica in target.replicas
            ]
            if tuple(directories) != before.directories:
                record.directories = directories
        if tuple(target.replicas) != before.replicas:
            record.replicas = target.replicas
        if tuple(target.removing) != before.removing_replicas:
            record.removing_replicas = target.removing
        if tuple(target.adding) != before.adding_replicas:
            record.adding_replicas = target.adding


def _is_empty(record: PartitionChangeRecord) -> bool:
    lists = (record.isr, record.eligible_leader_replicas, record.last_known_elr, record.replicas, record.directories)
    if any(each is not None for each in (*lists, record.adding_replicas, record.removing_replicas)):
        return False
    return record.leader == NO_LEADER_CHANGE and record.leader_recovery_state == NO_RECOVERY_CHANGE

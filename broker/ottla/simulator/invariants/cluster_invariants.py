"""Invariants of a whole cluster, checked after every event under all faults: one small class each.

The quorum's own are checked in `quorum_invariants`, on the quorum alone; those here see whole nodes.
"""

from collections.abc import Iterable, Iterator, Sequence

from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, PartitionRegistration
from ottla.raft.records import Batch, ReplicaKey
from ottla.replication.partition import Partition
from ottla.simulator.invariants.ledger import (
    Entry,
    InvariantViolation,
    PartitionKey,
    PartitionLedger,
    batches_in,
    entry_of,
)
from ottla.simulator.invariants.state_observer import (
    NO_REPLICA,
    Invariant,
    QuorumView,
    ReplicaChange,
    SegmentDeletion,
    StateObserver,
)
from ottla.simulator.world.node import SimulatedNode
from ottla.types import LeaderEpoch, NodeId, Offset, Uuid
from ottla.wire.records import RecordBatch, read_records

_READ_SIZE_BYTES = 1 << 20


class OneLeaderPerEpoch(Invariant):
    """No two nodes lead a partition, or the quorum, in the same epoch."""

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._leaders: dict[tuple[object, LeaderEpoch], NodeId] = {}

    def on_replica(self, change: ReplicaChange) -> None:
        if change.now.is_leader:
            self._claim(change.key, change.now.leader_epoch, change.place.node_id)

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        if now.leads:
            self._claim("the quorum", now.epoch, place.node_id)

    def _claim(self, what: object, epoch: LeaderEpoch, node_id: NodeId) -> None:
        leader = self._leaders.setdefault((what, epoch), node_id)
        if leader != node_id:
            raise InvariantViolation(f"OneLeaderPerEpoch: nodes {leader} and {node_id} lead {what} in epoch {epoch}")


class MonotonicEpoch(Invariant):
    """An epoch never goes back: a partition's within a process, the quorum's restarts included."""

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._quorum_epochs: dict[tuple[NodeId, Uuid], LeaderEpoch] = {}

    def on_replica(self, change: ReplicaChange) -> None:
        if change.now.leader_epoch < change.before.leader_epoch:
            raise InvariantViolation(
                f"MonotonicEpoch: {change.key} on node {change.place.node_id} went from leader epoch "
                f"{change.before.leader_epoch} to {change.now.leader_epoch}"
            )

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        disk = (place.node_id, place.directory_id)
        if now.epoch < self._quorum_epochs.get(disk, 0):
            raise InvariantViolation(
                f"MonotonicEpoch: node {place.node_id} went from epoch {self._quorum_epochs[disk]} of the quorum "
                f"to {now.epoch}"
            )
        self._quorum_epochs[disk] = now.epoch


class MonotonicHighWatermark(Invariant):
    """A replica's high watermark never goes back while its process runs; the quorum's never, across leaders.

    Except once: a power loss can take a truncation back, but not the checkpoint of the high watermark, and the follower
    then truncates below what it has loaded.
    """

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._quorum: tuple[LeaderEpoch, Offset] = (0, 0)
        self._loaded: set[tuple[NodeId, PartitionKey]] = set()

    def on_replica(self, change: ReplicaChange) -> None:
        before, now = change.before.high_watermark, change.now.high_watermark
        replica = (change.place.node_id, change.key)
        if change.before is NO_REPLICA:
            self._loaded.add(replica)
            return
        may_truncate = replica in self._loaded and not change.now.is_leader
        if now != before or change.now.is_leader:
            self._loaded.discard(replica)
        if now < before and not may_truncate and not self.state_observer.ledger.partition(change.key).is_excused:
            raise InvariantViolation(
                f"MonotonicHighWatermark: {change.key} on node {change.place.node_id} went from {before} to {now}"
            )

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        epoch, highest = self._quorum
        if not now.leads or now.epoch < epoch or not now.high_watermark:
            return
        if now.high_watermark < highest:
            raise InvariantViolation(
                f"MonotonicHighWatermark: the quorum's was {highest} and is {now.high_watermark} at node "
                f"{place.node_id}, which leads epoch {now.epoch}"
            )
        self._quorum = (now.epoch, now.high_watermark)


class HighWatermarkReachedMajority(Invariant):
    """Records below the high watermark of a quorum leader are in the logs of a majority of its voters."""

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        if not now.leads or now.high_watermark == before.high_watermark or place.process is None:
            return
        nodes = self.state_observer.cluster.nodes
        voters = place.process.raft.voters.node_ids
        # A voter whose disk was replaced is no voter any more, also if its node runs.
        logs = {
            voter: nodes[voter].process
            for voter in voters
            if place.process.raft.voters.is_voter(ReplicaKey(voter, nodes[voter].directory_id))
        }
        behind = [
            voter
            for voter, process in logs.items()
            if process is not None
            and process.raft.state.epoch <= now.epoch
            and process.raft.log_end_offset < now.high_watermark
        ]
        if 2 * len(behind) >= len(voters):
            raise InvariantViolation(
                f"HighWatermarkReachedMajority: node {place.node_id} leads epoch {now.epoch} with high watermark "
                f"{now.high_watermark}, which of {voters} {behind} do not have"
            )


class HighWatermarkReachedInSyncReplicas(Invariant):
    """Records below a partition leader's high watermark are in the logs of its whole in-sync set.

    A leader that has not received the newest metadata may still count a replica that lost its unsynced records in a
    power loss and was removed from the ISR for that. Such a replica cannot lead before it has fetched them again.
    """

    def on_replica(self, change: ReplicaChange) -> None:
        high_watermark = change.now.high_watermark
        if not change.now.is_leader or high_watermark <= change.before.high_watermark:
            return
        isr = change.partition.isr
        in_sync: Sequence[NodeId] = isr.in_sync
        newest = registration_of(self.state_observer.image, change.partition)
        if newest is not None and newest.partition_epoch > isr.partition_epoch:
            in_sync = [node_id for node_id in in_sync if node_id in newest.isr]
        for node_id in in_sync:
            process = self.state_observer.cluster.nodes[node_id].process
            if process is None or self.state_observer.is_harmed(change.key, node_id):
                continue
            replica = replica_of(process.replicas, change.key)
            if replica is not None and replica.log.log_end_offset < high_watermark:
                raise InvariantViolation(
                    f"HighWatermarkReachedInSyncReplicas: {change.key} is said to be committed to {high_watermark} by "
                    f"node {change.place.node_id}; node {node_id} is in sync, and ends at {replica.log.log_end_offset}"
                )


class CommittedMetadataAgrees(Invariant):
    """Every node reads the same committed metadata at the same offset."""

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._batches: dict[Offset, Batch[MetadataRecord]] = {}

    def on_committed_metadata(self, node_id: NodeId, batches: Sequence[Batch[MetadataRecord]]) -> None:
        for batch in batches:
            known = self._batches.setdefault(batch.base_offset, batch)
            if known is not batch and known != batch:
                raise InvariantViolation(
                    f"CommittedMetadataAgrees: at offset {batch.base_offset} node {node_id} was told {batch}, "
                    f"another {known}"
                )


class ReplicasIdenticalBelowHighWatermark(Invariant):
    """Records below a high watermark are the same, byte for byte, on every replica with it; offsets are contiguous.

    This one fills the ledger: batches that a high watermark passes first are the reference for all replicas. In an
    excused partition only the newest leader's high watermark counts: a replica that comes back with what an unclean
    election has lost still has its old high watermark until it has truncated, and followers truncate to what the leader
    has. A power loss can take a truncation back, but not the checkpoint of the high watermark: what a follower has
    loaded is compared when it has advanced for the first time, that is, after it has truncated.
    """

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._loaded: set[tuple[NodeId, PartitionKey]] = set()

    def on_replica(self, change: ReplicaChange) -> None:
        if change.now.high_watermark > change.before.high_watermark:
            ledger = self.state_observer.ledger.partition(change.key)
            leads = self._leads(change.place, change.partition)
            replica = (change.place.node_id, change.key)
            if ledger.is_excused and not leads:
                return
            if change.before is NO_REPLICA and not leads:
                self._loaded.add(replica)
                return
            log = change.partition.log
            start = max(change.before.high_watermark, log.log_start_offset)
            if replica in self._loaded:
                self._loaded.remove(replica)
                start = log.log_start_offset
            _compare(ledger, change.partition, change.place.node_id, start, change.now.high_watermark)

    def on_deletion(self, deletion: SegmentDeletion) -> None:
        """Add batches to the ledger that no high watermark had passed at the last observation."""
        ledger = self.state_observer.ledger.partition(deletion.key)
        if ledger.is_excused and not self._leads(deletion.place, deletion.partition):
            return
        log = deletion.partition.log
        # Below its log start a replica may keep what it alone had: where the leader's log starts behind that, it has
        # truncated to the start of the first epoch that the leader knows (LeaderEpochFileCache.endOffsetFor).
        start = ledger.end if ledger.is_excused else min(ledger.end, log.log_start_offset)
        end = log.high_watermark
        batches = [
            batch for batch in deletion.segment.batches if batch.base_offset >= start and batch.next_offset <= end
        ]
        _compare_batches(ledger, batches, deletion.place.node_id)

    def _leads(self, place: SimulatedNode, partition: Partition) -> bool:
        """Return whether the replica leads in the newest epoch: a leader that was replaced is a follower to be."""
        newest = registration_of(self.state_observer.image, partition)
        is_newest = newest is None or partition.leader_epoch >= newest.leader_epoch
        return partition.leader == place.node_id and is_newest


class AcknowledgedRecordsAreNeverLost(Invariant):
    """Committed records, hence all acknowledged with acks=all, are in the log of every later leader."""

    def on_replica(self, change: ReplicaChange) -> None:
        if not change.now.is_leader or change.now.leader_epoch == change.before.leader_epoch:
            return
        if self._is_over(change):
            return
        ledger = self.state_observer.ledger.partition(change.key)
        log = change.partition.log
        if log.log_end_offset < ledger.end:
            if not ledger.is_excused:
                raise InvariantViolation(
                    f"AcknowledgedRecordsAreNeverLost: node {change.place.node_id} leads {change.key} in epoch "
                    f"{change.now.leader_epoch} and ends at {log.log_end_offset}; committed was {ledger.end}"
                )
            ledger.remove_from(log.log_end_offset)
        _compare(ledger, change.partition, change.place.node_id, log.log_start_offset, ledger.end)

    def _is_over(self, change: ReplicaChange) -> bool:
        """Return whether another leader has followed: a node that was cut off learns late that it has led for a while.

        What has been committed since may have been written before: the former leader of all was its successor, too.
        """
        topic = self.state_observer.image.topics.by_id.get(change.key.topic_id)
        newest = None if topic is None else topic.partitions.get(change.key.partition)
        return newest is not None and change.now.leader_epoch < newest.leader_epoch

    def on_acknowledged(self, key: PartitionKey, offset: Offset, values: Sequence[bytes]) -> None:
        ledger = self.state_observer.ledger.partition(key)
        for place, value in enumerate(values):
            ledger.acknowledged[offset + place] = value
        is_unseen = ledger.end <= offset < self.state_observer.highest_seen(key)
        if ledger.is_excused or is_unseen:
            return  # unseen: the leader has acknowledged it, and lost its disk in the same moment
        found = ledger.values[offset : offset + len(values)]
        if found != list(values):
            raise InvariantViolation(
                f"AcknowledgedRecordsAreNeverLost: {values[0]!r} was acknowledged at offset {offset} of {key}; "
                f"committed up to {ledger.end} is {found}"
            )


class ConsumersNeverReadAboveHighWatermark(Invariant):
    """Consumers see only committed records, and all see the same record at an offset."""

    def on_read(self, key: PartitionKey, values: Sequence[tuple[Offset, bytes]]) -> None:
        ledger = self.state_observer.ledger.partition(key)
        if ledger.is_excused:
            return
        for offset, value in values:
            if offset >= ledger.end:
                raise InvariantViolation(
                    f"ConsumersNeverReadAboveHighWatermark: {key} gave out {value!r} at offset {offset}; "
                    f"committed is {ledger.end}"
                )
            if ledger.values[offset] != value:
                raise InvariantViolation(
                    f"ConsumersNeverReadAboveHighWatermark: {key} gave out {value!r} at offset {offset}, "
                    f"where {ledger.values[offset]!r} is committed"
                )


class InSyncReplicasAreAssigned(Invariant):
    """The in-sync set is within the assigned replicas, the leader is in it, and a fenced broker only if it is alone."""

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        brokers = now.cluster.brokers
        for topic in now.topics.by_id.values():
            for index, partition in topic.partitions.items():
                where = (
                    f"InSyncReplicasAreAssigned: {topic.name}-{index} at offset {now.provenance.last_contained_offset}"
                )
                if not set(partition.isr) <= set(partition.replicas):
                    raise InvariantViolation(f"{where} has {partition.isr} in sync of {partition.replicas}")
                if partition.leader != NO_LEADER and partition.leader not in partition.isr:
                    raise InvariantViolation(f"{where} is led by {partition.leader}, in sync are {partition.isr}")
                fenced = [each for each in partition.isr if each not in brokers or brokers[each].is_fenced]
                if fenced and len(partition.isr) > 1:
                    raise InvariantViolation(f"{where} has {partition.isr} in sync, of which {fenced} are fenced")
                if partition.leader in fenced:
                    raise InvariantViolation(f"{where} is led by {partition.leader}, which is fenced")


class OneUnfencedIncarnation(Invariant):
    """A broker's epoch only grows, and an incarnation that was replaced is never registered again."""

    def __init__(self, state_observer: StateObserver) -> None:
        super().__init__(state_observer)
        self._replaced: dict[tuple[NodeId, Uuid], bool] = {}

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        if now.cluster is before.cluster:
            return
        for broker_id, broker in now.cluster.brokers.items():
            old = before.cluster.brokers.get(broker_id)
            if (broker_id, broker.incarnation_id) in self._replaced:
                raise InvariantViolation(
                    f"OneUnfencedIncarnation: an incarnation of broker {broker_id} that was replaced is back"
                )
            if old is None:
                continue
            if broker.epoch < old.epoch:
                raise InvariantViolation(
                    f"OneUnfencedIncarnation: broker {broker_id} went from epoch {old.epoch} to {broker.epoch}"
                )
            if old.incarnation_id != broker.incarnation_id:
                self._replaced[broker_id, old.incarnation_id] = True


class ExcusesAreUpdated(Invariant):
    """Not an invariant itself: updates the excuses of partitions whose disks have lost data."""

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        self.state_observer.update_excuses()


INVARIANTS: tuple[type[Invariant], ...] = (
    ExcusesAreUpdated,
    OneLeaderPerEpoch,
    MonotonicEpoch,
    MonotonicHighWatermark,
    HighWatermarkReachedMajority,
    HighWatermarkReachedInSyncReplicas,
    CommittedMetadataAgrees,
    ReplicasIdenticalBelowHighWatermark,
    AcknowledgedRecordsAreNeverLost,
    ConsumersNeverReadAboveHighWatermark,
    InSyncReplicasAreAssigned,
    OneUnfencedIncarnation,
)


def replica_of(replicas: object, key: PartitionKey) -> Partition | None:
    """Return a node's replica of a partition, or None; the lookup creates none."""
    for partition in replicas:  # type: ignore[attr-defined]
        if partition.topic_id == key.topic_id and partition.topic_partition.partition == key.partition:
            assert isinstance(partition, Partition)
            return partition
    return None


def registration_of(image: MetadataImage, partition: Partition) -> PartitionRegistration | None:
    """Return the metadata of a replica's partition."""
    topic = image.topics.by_id.get(partition.topic_id)
    return None if topic is None else topic.partitions.get(partition.topic_partition.partition)


def _batches(partition: Partition, start: Offset, end: Offset) -> Iterator[RecordBatch]:
    """Walk the batches from the one that holds ``start``; a read ends where a segment does."""
    while start < end:
        found = partition.log.read(start, size_bytes_max=_READ_SIZE_BYTES, upper_bound_offset=end).records
        batches = [] if found is None else batches_in(found.read(), start, end)
        if not batches:
            return
        yield from batches
        start = batches[-1].next_offset


def _compare(ledger: PartitionLedger, partition: Partition, node_id: NodeId, start: Offset, end: Offset) -> None:
    """Compare a replica's batches from ``start`` to ``end`` with the ledger; those that are news go into it.

    Raises:
        InvariantViolation: they differ.
    """
    if start < end:
        _compare_batches(ledger, _batches(partition, start, end), node_id)


def _compare_batches(ledger: PartitionLedger, batches: Iterable[RecordBatch], node_id: NodeId) -> None:
    for batch in batches:
        if batch.base_offset >= ledger.end:
            ledger.add(batch)
            continue
        known = ledger.find_entry(batch.base_offset)
        if known != entry_of(batch) and not (
            ledger.is_keyed and known is not None and _is_left_of(ledger, known, batch)
        ):
            if ledger.is_excused:
                ledger.remove_from(batch.base_offset)
                ledger.add(batch)
                continue
            raise InvariantViolation(
                f"ReplicasIdenticalBelowHighWatermark: {ledger.key} has {entry_of(batch)} on node {node_id}, "
                f"{known} was committed"
            )


def _is_left_of(ledger: PartitionLedger, known: Entry, batch: RecordBatch) -> bool:
    """Return whether ``batch`` is what compaction may leave of a committed one: its range, and some of its records."""
    if entry_of(batch)._replace(crc=known.crc) != known:
        return False
    records = read_records(batch, size_bytes_max=_READ_SIZE_BYTES)
    return all(
        (record.key, record.value or b"") == (ledger.keys[record.offset], ledger.values[record.offset])
        for record in records
    )

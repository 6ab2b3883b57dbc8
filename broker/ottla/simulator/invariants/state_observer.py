"""`StateObserver`: observes a node after every event that reached it, and reports the changes to the invariants.

An observation without changes is cheap: one comparison for the quorum, one for the metadata, one per partition.
Segments are observed before retention deletes them: records may be appended, acknowledged and deleted between two
observations.
"""

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from ottla.controller.configs import ACKS_FSYNC
from ottla.log.partition_log import PartitionLog
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.node.node import Node
from ottla.raft.leader import LeaderState
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotReader
from ottla.replication.partition import Partition
from ottla.simulator.invariants.deleted_segment import (
    DeletedSegment,
    ReplacedSegment,
    is_segment_deleted,
    read_oldest_segment,
    read_replaced_segment,
)
from ottla.simulator.invariants.ledger import Ledger, PartitionKey
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.types import LeaderEpoch, NodeId, Offset, TopicPartition, Uuid


class ReplicaState(NamedTuple):
    """Observable state of one replica."""

    is_leader: bool
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    end_offset: Offset
    start_offset: Offset = 0


class QuorumView(NamedTuple):
    """Observable state of one replica of the quorum."""

    leads: bool
    epoch: LeaderEpoch
    high_watermark: Offset
    end_offset: Offset


NO_REPLICA = ReplicaState(is_leader=False, leader_epoch=-1, high_watermark=0, end_offset=0)
NO_QUORUM = QuorumView(leads=False, epoch=-1, high_watermark=0, end_offset=0)


class ReplicaChange(NamedTuple):
    """One replica that is not as it was."""

    place: SimulatedNode
    partition: Partition
    key: PartitionKey
    before: ReplicaState
    now: ReplicaState


class SegmentReplacement(NamedTuple):
    """One replica that is about to replace one of its segments by a compacted one."""

    place: SimulatedNode
    partition: Partition
    key: PartitionKey
    segment: ReplacedSegment


class SegmentDeletion(NamedTuple):
    """One replica that is about to delete its oldest segment."""

    place: SimulatedNode
    partition: Partition
    key: PartitionKey
    segment: DeletedSegment


class Invariant:
    """Base of all invariants, which override the events that they check; each raises `InvariantViolation`."""

    def __init__(self, state_observer: "StateObserver") -> None:
        self.state_observer = state_observer

    def on_replica(self, change: ReplicaChange) -> None:
        """A replica of a partition has changed, or is new."""

    def on_deletion(self, deletion: SegmentDeletion) -> None:
        """A replica of a partition deletes its oldest segment: its records are still there."""

    def on_replacement(self, replacement: SegmentReplacement) -> None:
        """A replica of a partition replaces a segment by a compacted one: both are still there."""

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        """A replica of the metadata quorum has changed."""

    def on_committed_metadata(self, node_id: NodeId, batches: Sequence[Batch[MetadataRecord]]) -> None:
        """A node's quorum replica reported these batches as committed."""

    def on_image(self, before: MetadataImage, now: MetadataImage) -> None:
        """Some node has published newer metadata than any other before."""

    def on_acknowledged(self, key: PartitionKey, offset: Offset, values: Sequence[bytes]) -> None:
        """A producer's records were acknowledged with acks=all."""

    def on_read(self, key: PartitionKey, values: Sequence[tuple[Offset, bytes]]) -> None:
        """A consumer received these records."""

    def on_skipped(self, key: PartitionKey, position: Offset, start: Offset) -> None:
        """A consumer at ``position`` found that the log starts at ``start``."""


_SeenReplica: TypeAlias = tuple[PartitionLog, bool, LeaderEpoch, Offset, Offset, Offset]
"""A log, and the fields of its `ReplicaState`."""
_Replicas: TypeAlias = dict[TopicPartition, _SeenReplica]


class _Seen:
    """State of one process at the last observation."""

    def __init__(self, process: Node) -> None:
        self.process = process
        self.quorum = NO_QUORUM
        self.image: MetadataImage = EMPTY_IMAGE
        self.replicas: _Replicas = {}


class _MetadataListener:
    """Reports what one node's quorum replica has committed to the invariants."""

    def __init__(self, state_observer: "StateObserver", node_id: NodeId) -> None:
        self._state_observer = state_observer
        self._node_id = node_id

    def on_committed(self, batches: Sequence[Batch[MetadataRecord]]) -> None:
        for invariant in self._state_observer.invariants:
            invariant.on_committed_metadata(self._node_id, batches)

    def on_snapshot(self, reader: SnapshotReader[MetadataRecord]) -> None:
        """Do nothing: the contents of a snapshot are compared through the resulting image."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Nothing."""


@contextmanager
def _observed(place: SimulatedNode) -> Iterator[None]:
    """Allow invariants to read the node's disk: no faults, and no operations counted."""
    place.disk.is_observed = True
    try:
        yield
    finally:
        place.disk.is_observed = False


class StateObserver:
    """See the module.

    Attributes:
        image: the newest metadata that any node has published.
        observation_count: number of observed events.
        harmed: nodes whose disks have lost data, by partition, until they have replicated it again.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ledger = Ledger()
        self.image: MetadataImage = EMPTY_IMAGE
        self.harmed: dict[tuple[Uuid, int], dict[NodeId, bool]] = {}
        self.invariants: list[Invariant] = []
        self.observation_count = 0
        self._seen: dict[NodeId, _Seen] = {}
        self._ended: dict[tuple[TopicPartition, bool], Offset] = {}
        """High watermarks of processes that have ended, of followers (False) and leaders."""

    def before_start(self, place: SimulatedNode) -> None:
        """Observe the metadata that the process commits and the segments that it deletes; called before it starts."""
        assert place.process is not None, "only what exists starts"
        place.process.raft.register(_MetadataListener(self, place.node_id))
        place.disk.before_rename = lambda source, target: self._before_rename(place, source, target)

    def observe_node(self, place: SimulatedNode) -> None:
        """Report changes of the node to the invariants.

        Raises:
            InvariantViolation: an invariant does not hold.
        """
        self.observation_count += 1
        process = place.process
        if process is None:
            return
        defect = process.replicas.fetchers.unexpected_error
        if defect is not None:
            raise defect  # the node survives it, and the invariant that it breaks may show nowhere else
        seen = self._seen.get(place.node_id)
        if seen is None or seen.process is not process:
            self._note_end(seen)
            seen = self._seen[place.node_id] = _Seen(process)
        raft = process.raft
        state = raft.state
        quorum = (isinstance(state, LeaderState), state.epoch, raft.high_watermark or 0, raft.log_end_offset)
        if quorum != seen.quorum:
            before, seen.quorum = seen.quorum, QuorumView(*quorum)
            with _observed(place):
                for invariant in self.invariants:
                    invariant.on_quorum(place, before, seen.quorum)
        image = process.metadata.image
        if image is not seen.image:
            seen.image = image
            with _observed(place):
                self._observe_image(image)
        node_id, replicas = place.node_id, seen.replicas
        for partition in process.replicas:
            log = partition.log
            # Compared as a whole, since mostly nothing has changed.
            now = (
                log,
                partition.leader == node_id,
                partition.leader_epoch,
                log.high_watermark,
                log.log_end_offset,
                log.log_start_offset,
            )
            if replicas.get(partition.topic_partition) != now:
                self._on_changed(place, partition, replicas, now)

    def _on_changed(self, place: SimulatedNode, partition: Partition, seen: _Replicas, now: _SeenReplica) -> None:
        old, state = seen.get(partition.topic_partition), ReplicaState(*now[1:])
        # A replica that was removed, or whose log is corrupt, starts empty.
        before = ReplicaState(*old[1:]) if old is not None and old[0] is now[0] else NO_REPLICA
        if before != state and partition.topic_id in self.image.topics.by_id:
            topic, index = partition.topic_partition
            key = PartitionKey(topic, partition.topic_id, index)
            seen[partition.topic_partition] = now
            change = ReplicaChange(place, partition, key, before, state)
            with _observed(place):
                for invariant in self.invariants:
                    invariant.on_replica(change)

    def _before_rename(self, place: SimulatedNode, source: str, target: str) -> None:
        if place.process is None or not is_segment_deleted(source, target):
            return
        directory = posixpath.dirname(source)
        for partition in place.process.replicas:
            if partition.log.directory == directory and partition.topic_id in self.image.topics.by_id:
                topic, index = partition.topic_partition
                key = PartitionKey(topic, partition.topic_id, index)
                replaced = read_replaced_segment(place.disk, source)
                segment = read_oldest_segment(place.disk, source) if replaced is None else None
                for invariant in self.invariants:
                    if replaced is not None:
                        invariant.on_replacement(SegmentReplacement(place, partition, key, replaced))
                    elif segment is not None:
                        invariant.on_deletion(SegmentDeletion(place, partition, key, segment))

    def _note_end(self, seen: _Seen | None) -> None:
        for log, leads, *_ in () if seen is None else seen.replicas.values():
            ended = (log.topic_partition, leads)
            self._ended[ended] = max(self._ended.get(ended, 0), log.high_watermark)

    def highest_seen(self, key: PartitionKey, *, of_leaders: bool = False) -> Offset:
        """Return the highest high watermark of replicas, or only of leaders.

        Processes that ended before they were observed count: they may have sent it to others.
        """
        place = TopicPartition(key.topic, key.partition)
        roles = (True,) if of_leaders else (True, False)
        ended = [self._ended.get((place, leads), 0) for leads in roles]
        replicas = [seen.replicas[place] for seen in self._seen.values() if place in seen.replicas]
        return max(ended + [log.high_watermark for log, leads, *_ in replicas if leads in roles])

    def _observe_image(self, image: MetadataImage) -> None:
        before = self.image
        if image.provenance.last_contained_offset <= before.provenance.last_contained_offset:
            return
        self.image = image
        if image.topics is not before.topics or image.cluster is not before.cluster:
            self._remove_topics(before, image)
            for invariant in self.invariants:
                invariant.on_image(before, image)

    def _remove_topics(self, before: MetadataImage, now: MetadataImage) -> None:
        if now.topics is not before.topics:
            for topic_id in before.topics.by_id:
                if topic_id not in now.topics.by_id:
                    self.ledger.remove_topic(topic_id)

    # --- reported by clients

    def acknowledged(self, key: PartitionKey, offset: Offset, values: Sequence[bytes]) -> None:
        """A producer's records were acknowledged with acks=all."""
        if self.is_deleted(key):
            return
        for invariant in self.invariants:
            invariant.on_acknowledged(key, offset, values)

    def read(self, key: PartitionKey, values: Sequence[tuple[Offset, bytes]]) -> None:
        """A consumer received these records."""
        if self.is_deleted(key):
            return
        for invariant in self.invariants:
            invariant.on_read(key, values)

    def skipped(self, key: PartitionKey, position: Offset, start: Offset) -> None:
        """A consumer at ``position`` found that the log starts at ``start``."""
        if self.is_deleted(key):
            return
        for invariant in self.invariants:
            invariant.on_skipped(key, position, start)

    def is_deleted(self, key: PartitionKey) -> bool:
        return key.topic_id not in self.image.topics.by_id

    # --- disks that lose data

    def confirms_synced(self, topic: str) -> bool:
        """Return whether ottla.acks.fsync is set for a topic: then its replicas have synced all that they confirmed."""
        default = self.cluster.overrides.get(ACKS_FSYNC, "false")
        return self.image.configs.of_topic(topic).get(ACKS_FSYNC, default) == "true"

    def note_data_loss(self, node_id: NodeId, *, only_unsynced: bool = False) -> None:
        """Note that the node's disk has lost its unsynced data, or all of it."""
        for topic_id, topic in self.image.topics.by_id.items():
            if only_unsynced and self.confirms_synced(topic.name):
                continue
            for index, partition in topic.partitions.items():
                if node_id in partition.replicas:
                    self.harmed.setdefault((topic_id, index), {})[node_id] = True
        self.update_excuses()

    def is_harmed(self, key: PartitionKey, node_id: NodeId) -> bool:
        return node_id in self.harmed.get((key.topic_id, key.partition), ())

    def update_excuses(self) -> None:
        """Excuse the partitions whose records no cluster could have kept.

        The rule: a partition must keep its records as long as, at every moment, some replica of its in-sync set (or of
        those eligible to lead it) runs and has lost nothing since it joined. When none does, while one of them has lost
        data, the controller may be left with that one alone, and its lost records are lost.
        """
        for (topic_id, index), harmed in list(self.harmed.items()):
            topic = self.image.topics.by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(index)
            if topic is None or partition is None:
                del self.harmed[topic_id, index]
                continue
            holders = (*partition.isr, *partition.elr)
            # The last known leader leads again when no replica is eligible any more, as all others' ends were unclean.
            last_leaders = (*partition.last_known_elr, *self._last_seen_leaders(topic_id, index))
            for node_id in [each for each in harmed if each not in (*holders, *last_leaders)]:
                del harmed[node_id]
            if not harmed:
                del self.harmed[topic_id, index]
            elif not any(
                each not in harmed and self._runs(each, TopicPartition(topic.name, index)) for each in holders
            ):
                self.ledger.partition(PartitionKey(topic.name, topic_id, index)).is_excused = True

    def _last_seen_leaders(self, topic_id: Uuid, index: int) -> list[NodeId]:
        """Return the leaders that active controllers would note as last known if the present one failed."""
        processes = [place.process for place in self.cluster.nodes.values() if place.process is not None]
        controllers = [process.controller for process in processes if process.controller is not None]
        return [each.last_seen_leader(topic_id, index) for each in controllers if each.is_active]

    def _runs(self, node_id: NodeId, partition: TopicPartition) -> bool:
        """Whether the node runs, and has the partition's log in a directory that works."""
        place = self.cluster.nodes.get(node_id)
        return place is not None and place.process is not None and place.process.logs.get(partition) is not None

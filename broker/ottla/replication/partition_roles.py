"""`PartitionRoles`: makes this node the leader or a follower of a partition, or neither.

Each role has its own managers: for partitions that this node leads, `IsrManager` manages the ISR and `AwaitedFollowers`
keeps fetches short until the followers have found their leader; the `ReplicaFetcherManager` copies those it follows.
"""

from collections.abc import Callable
from contextlib import suppress

from ottla.errors import StorageError
from ottla.metadata.topics import PartitionRegistration
from ottla.ports import Clock
from ottla.replication.awaited_followers import AwaitedFollowers
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.directory_moves import DirectoryMoves
from ottla.replication.isr_manager import IsrManager
from ottla.replication.leader_syncs import LeaderSyncs
from ottla.replication.partition import NO_LEADER, Partition
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.types import TopicPartition


class PartitionRoles:
    """See the module."""

    def __init__(
        self,
        *,
        clock: Clock,
        isr_manager: IsrManager,
        awaited_followers: AwaitedFollowers,
        fetchers: ReplicaFetcherManager,
        syncs: LeaderSyncs,
        directories: DirectoryAssignments,
        moves: DirectoryMoves,
    ) -> None:
        self._clock = clock
        self._isr_manager = isr_manager
        self._awaited_followers = awaited_followers
        self._fetchers = fetchers
        self._syncs = syncs
        self._directories = directories
        self._moves = moves

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Make this node lead ``partition``, or continue to."""
        now_ms = self._clock.monotonic_ms()
        self._fetchers.unfollow(partition.topic_partition)
        if partition.lead(registration, now_ms=now_ms):
            self._awaited_followers.await_followers(partition, now_ms)
        partition.advance_high_watermark(now_ms)
        self._isr_manager.lead(partition)

    def sync(self, partition: Partition) -> None:
        """Sync what recovery found: it may be in the page cache only, and is committed after that."""
        if partition.is_leader:
            with suppress(StorageError):
                self._syncs.start_if_due(partition)

    def follow(self, partition: Partition, registration: PartitionRegistration, *, is_new: bool) -> None:
        """Make this node follow the leader of ``partition``, if it has one."""
        is_changed = partition.follow(registration) or is_new
        if partition.corrupt_offset is not None and partition.leader != NO_LEADER:
            partition.truncate_corruption()
        self._isr_manager.remove(partition.topic_partition)
        if partition.leader == NO_LEADER:
            self._fetchers.unfollow(partition.topic_partition)
        elif is_changed:
            self._fetchers.follow(partition)

    def continue_move(self, partition: Partition) -> None:
        """Continue to move it to another log directory, if the last process was doing so."""
        self._moves.on_assigned(partition)

    def remove_stray_copies(self, is_stray: Callable[[TopicPartition], bool]) -> None:
        """Delete the copies of partitions that the metadata assigns to other nodes."""
        self._moves.remove_strays(is_stray)

    def end(self, partition: Partition, *, is_lost: bool) -> None:
        """Stop leading or following it; ``is_lost``: its log directory failed."""
        topic_partition = partition.topic_partition
        partition.stop()
        if not is_lost:  # else the controller must learn which directory failed with the replica
            self._directories.cancel(partition.topic_id, topic_partition.partition)
        self._moves.on_ended(partition, is_lost=is_lost)
        self._isr_manager.remove(topic_partition)
        self._fetchers.unfollow(topic_partition)

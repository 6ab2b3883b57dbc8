"""`PartitionRoles`: has a partition led or followed by this node, or neither.

Each role has its own keepers: of what this node leads, `IsrManager` keeps the ISR and `AwaitedFollowers` the fetches
short until the followers have found their leader; what it follows is copied by the `ReplicaFetcherManager`.
"""

from contextlib import suppress

from ottla.errors import StorageError
from ottla.metadata.topics import PartitionRegistration
from ottla.ports import Clock
from ottla.replication.awaited_followers import AwaitedFollowers
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.isr_manager import IsrManager
from ottla.replication.leader_syncs import LeaderSyncs
from ottla.replication.partition import NO_LEADER, Partition
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager


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
    ) -> None:
        self._clock = clock
        self._isr_manager = isr_manager
        self._awaited_followers = awaited_followers
        self._fetchers = fetchers
        self._syncs = syncs
        self._directories = directories

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Have this node lead ``partition``, or continue to."""
        now_ms = self._clock.monotonic_ms()
        self._fetchers.forget(partition.topic_partition)
        if partition.lead(registration, now_ms=now_ms):
            self._awaited_followers.await_followers(partition, now_ms)
        partition.advance_high_watermark(now_ms)
        self._isr_manager.lead(partition)

    def sync(self, partition: Partition) -> None:
        """Bring what recovery found to the disk: it may be in the page cache only, and is committed after that."""
        if partition.is_leader:
            with suppress(StorageError):
                self._syncs.start_if_due(partition)

    def follow(self, partition: Partition, registration: PartitionRegistration, *, is_new: bool) -> None:
        """Have this node follow the leader of ``partition``, or nobody where there is none."""
        is_news = partition.follow(registration) or is_new
        if partition.damaged_offset is not None and partition.leader != NO_LEADER:
            partition.drop_damage()
        self._isr_manager.forget(partition.topic_partition)
        if partition.leader == NO_LEADER:
            self._fetchers.forget(partition.topic_partition)
        elif is_news:
            self._fetchers.follow(partition)

    def end(self, partition: Partition, *, is_lost: bool) -> None:
        """Neither lead nor follow it any more; ``is_lost``: its log directory failed."""
        topic_partition = partition.topic_partition
        partition.stop()
        if not is_lost:  # else the controller has to hear which directory took the replica along
            self._directories.forget(partition.topic_id, topic_partition.partition)
        self._isr_manager.forget(topic_partition)
        self._fetchers.forget(topic_partition)

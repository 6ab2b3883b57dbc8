"""`ReplicaFetcherManager`: assigns followed partitions to fetchers, num.replica.fetchers for each leader.

Partitions that confirm records only after a sync (ottla.acks.fsync, flush.messages) have as many fetchers of their own:
a fetcher does not fetch while it syncs, and the other partitions must not wait for that.

Source: AbstractFetcherManager and ReplicaFetcherManager of Apache Kafka 4.3.
"""

from binascii import crc32
from collections.abc import Callable

from ottla.replication.config import ReplicationConfig
from ottla.replication.partition import Partition
from ottla.replication.replica_fetcher import ReplicaFetcher
from ottla.types import NEVER_MS, NodeId, TopicPartition


class ReplicaFetcherManager:
    """See the module; a fetcher is kept for the next partitions of its leader.

    Args of the constructor:
        new_fetcher: creates the fetcher from one leader over one connection.
    """

    def __init__(
        self, *, config: Callable[[], ReplicationConfig], new_fetcher: Callable[[NodeId, str], ReplicaFetcher]
    ) -> None:
        self._config = config
        self._new_fetcher = new_fetcher
        self._fetchers: dict[tuple[NodeId, str], ReplicaFetcher] = {}
        self._assigned: dict[TopicPartition, tuple[Partition, ReplicaFetcher]] = {}

    def __len__(self) -> int:
        """Return how many partitions are copied, or have failed in their fetcher."""
        return len(self._assigned)

    @property
    def max_lag(self) -> int:
        """Records that the slowest partition is behind its leader's high watermark: Kafka's MaxLag."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    @property
    def failed_count(self) -> int:
        """Partitions that are not copied any more until the metadata changes: Kafka's FailedPartitionsCount."""
        return sum(len(fetcher.failed) for fetcher in self._fetchers.values())

    @property
    def unexpected_error(self) -> Exception | None:
        """The last exception of a fetcher that no code expected: a defect, which the simulator raises again."""
        errors = (fetcher.unexpected_error for fetcher in self._fetchers.values())
        return next((error for error in errors if error is not None), None)

    @property
    def bytes_in(self) -> int:
        return sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    def lost_since_ms(self) -> dict[NodeId, int]:
        """Return the leaders that do not respond any more, and when the connection to each broke."""
        return {
            fetcher.leader: fetcher.lost_since_ms
            for fetcher in self._fetchers.values()
            if fetcher.lost_since_ms is not None
        }

    def follow(self, partition: Partition) -> None:
        """Copy ``partition`` from its current leader."""
        topic_partition = partition.topic_partition
        key = (partition.leader, self._connection_of(partition))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = self._new_fetcher(*key)
        before = self._assigned.get(topic_partition)
        if before is not None and before[1] is not fetcher:
            before[1].unfollow(topic_partition)
        self._assigned[topic_partition] = (partition, fetcher)
        fetcher.follow(partition)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop copying it; no error when it is not copied."""
        assigned = self._assigned.pop(topic_partition, None)
        if assigned is not None:
            assigned[1].unfollow(topic_partition)

    def respread(self, partition: Partition) -> None:
        """Move the partition to another fetcher if its configuration requires that now."""
        assigned = self._assigned.get(partition.topic_partition)
        key = (partition.leader, self._connection_of(partition))
        if assigned is not None and self._fetchers.get(key) is not assigned[1]:
            self.follow(partition)

    def respread_all(self) -> None:
        """Distribute the partitions again after a change of num.replica.fetchers."""
        for partition, _ in list(self._assigned.values()):
            self.follow(partition)

    def retry_now(self) -> None:
        """Fetch at once from leaders that could not be reached: the metadata of brokers has changed."""
        for fetcher in self._fetchers.values():
            fetcher.retry_now()

    def tick(self, now_ms: int) -> None:
        for fetcher in self._fetchers.values():
            fetcher.tick(now_ms)

    @property
    def due_ms(self) -> int:
        """When `tick` has work."""
        due_ms = NEVER_MS
        for fetcher in self._fetchers.values():
            fetcher_due_ms = fetcher.due_ms
            due_ms = fetcher_due_ms if fetcher_due_ms < due_ms else due_ms
        return due_ms

    def _connection_of(self, partition: Partition) -> str:
        topic, index = partition.topic_partition
        number = (crc32(topic.encode()) + index) % self._config().fetcher_count
        return f"replica-fetcher-synced-{number}" if partition.log.config.awaits_syncs else f"replica-fetcher-{number}"

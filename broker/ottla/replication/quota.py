"""Replication throttling: the bytes per second that reassigned partitions may move, on the leader or on the follower.

Only partitions that ``leader.replication.throttled.replicas`` or ``follower.replication.throttled.replicas`` of their
topic name for this broker are counted and throttled; callers never throttle in-sync replicas.

Source: ReplicationQuotaManager of Apache Kafka 4.3; KIP-73.
"""

from ottla.metrics.rate import WindowedRate
from ottla.replication.config import RATE_UNLIMITED, ReplicationConfig
from ottla.types import NodeId, TopicPartition

ALL_REPLICAS = "*"


class ReplicationQuota:
    """One direction's quota: a rate over a sliding window of samples."""

    __slots__ = ("_measured", "_throttled", "rate")

    def __init__(self, *, window_count: int = 11, window_size_seconds: int = 1) -> None:
        self.rate = RATE_UNLIMITED
        self._measured = WindowedRate(window_count=window_count, window_ms=window_size_seconds * 1000)
        self._throttled: dict[str, frozenset[int] | None] = {}

    @property
    def is_limited(self) -> bool:
        return bool(self._throttled) and self.rate < RATE_UNLIMITED

    def throttle(self, topic: str, replicas: str | None, node_id: NodeId) -> None:
        """Set the topic's ``*.replication.throttled.replicas``; None or empty when it has none."""
        if not replicas:
            self._throttled.pop(topic, None)
        elif replicas == ALL_REPLICAS:
            self._throttled[topic] = None
        else:
            pairs = (entry.strip().split(":") for entry in replicas.split(",") if entry.strip())
            self._throttled[topic] = frozenset(int(pair[0]) for pair in pairs if int(pair[1]) == node_id)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        if topic_partition.topic not in self._throttled:
            return False
        partitions = self._throttled[topic_partition.topic]
        return partitions is None or topic_partition.partition in partitions

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._measured.record(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether more than ``rate`` bytes per second went through in the window."""
        elapsed_ms = self._measured.simple_elapsed_ms(now_ms)
        return self._measured.total(now_ms) * 1000 > self.rate * elapsed_ms


def new_quotas(config: ReplicationConfig) -> tuple[ReplicationQuota, ReplicationQuota]:
    """Return the quota of the leader and that of the follower."""
    window_count, window_size_seconds = config.quota_window_count, config.quota_window_size_seconds
    leader = ReplicationQuota(window_count=window_count, window_size_seconds=window_size_seconds)
    follower = ReplicationQuota(window_count=window_count, window_size_seconds=window_size_seconds)
    leader.rate, follower.rate = config.leader_throttled_rate, config.follower_throttled_rate
    return leader, follower

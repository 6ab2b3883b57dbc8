"""`FollowedPartitions`: the partitions that one fetcher copies, and which of them its next fetch names.

A partition is *changed* when the leader's fetch session does not have its current state, *delayed* while it backs off
or is throttled (it leaves the session), and *failed* when it is not copied until its metadata changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ottla.ports import Clock
from ottla.replication.fetch_session_handler import TopicKey
from ottla.replication.partition import Partition
from ottla.types import LeaderEpoch, Offset, TopicPartition, Uuid

_Sent = tuple[Offset, LeaderEpoch, LeaderEpoch, Offset]
"""What the leader was last sent: fetch offset, current leader epoch, last fetched epoch, log start offset."""


@dataclass(slots=True, eq=False)
class Followed:
    """One followed partition. ``sent`` is None while the leader's session does not have its current state."""

    partition: Partition
    leader_epoch: LeaderEpoch
    sent: _Sent | None = None
    is_in_session: bool = False
    delayed_until_ms: int = 0
    failures: int = 0
    lag: int | None = None

    @property
    def topic_key(self) -> TopicKey:
        return self.partition.topic_partition.topic, self.partition.topic_id


class FollowedPartitions:
    """See the module.

    Attributes:
        by_id: by topic id and partition number.
        changed: named by the next incremental fetch, in order of their changes.
        removed: to be removed from the leader's session by the next fetch.
        failed: the partitions that are not copied any more until their metadata changes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._followed: dict[TopicPartition, Followed] = {}
        self._delayed: dict[TopicPartition, Followed] = {}
        self.by_id: dict[tuple[Uuid, int], Followed] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.removed: dict[tuple[TopicKey, int], None] = {}
        self.failed: set[TopicPartition] = set()

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(self._followed.values())

    @property
    def has_delayed(self) -> bool:
        return bool(self._delayed)

    @property
    def has_fetchable(self) -> bool:
        """Whether any partition is not delayed."""
        return len(self._followed) > len(self._delayed)

    @property
    def delayed_due_ms(self) -> int:
        """When the first delay is over; there must be one."""
        return min(followed.delayed_until_ms for followed in self._delayed.values())

    def is_current(self, followed: Followed) -> bool:
        """Whether the partition was neither followed again, as in another leader epoch, nor unfollowed since."""
        return self._followed.get(followed.partition.topic_partition) is followed

    def to_name(self, limit: int | None) -> list[Followed]:
        """Return the partitions that the next fetch names: those that changed, up to ``limit``."""
        return [self._followed[each] for each in islice(self.changed, limit)]

    def follow(self, partition: Partition) -> None:
        """Copy ``partition`` from now on, in its current leader epoch."""
        topic_partition = partition.topic_partition
        self.failed.discard(topic_partition)
        before = self._followed.get(topic_partition)
        followed = Followed(partition, partition.leader_epoch)
        if before is not None and before.partition.topic_id == partition.topic_id:
            followed.is_in_session = before.is_in_session
        elif before is not None:
            self.unfollow(topic_partition)
        self._followed[topic_partition] = followed
        self.by_id[partition.topic_id, topic_partition.partition] = followed
        self.removed.pop((followed.topic_key, topic_partition.partition), None)
        self._delayed.pop(topic_partition, None)
        self.changed[topic_partition] = None

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Stop copying it; no error when it is not copied."""
        self.failed.discard(topic_partition)
        followed = self._followed.pop(topic_partition, None)
        if followed is not None:
            del self.by_id[followed.partition.topic_id, topic_partition.partition]
            self._delayed.pop(topic_partition, None)
            self.changed.pop(topic_partition, None)
            self._leave_session(followed)

    def mark_failed(self, followed: Followed) -> None:
        """Stop copying a partition until its metadata changes, as Kafka's markPartitionFailed does."""
        self.unfollow(followed.partition.topic_partition)
        self.failed.add(followed.partition.topic_partition)

    def start_session(self) -> None:
        """Prepare a full fetch: the leader's new session has only partitions that it and later fetches name."""
        for followed in self._followed.values():
            followed.is_in_session = False
        self.changed = {each: None for each in self._followed if each not in self._delayed}
        self.removed.clear()

    def delay(self, followed: Followed, delay_ms: int) -> None:
        """Do not fetch the partition for a while; it leaves the leader's session."""
        topic_partition = followed.partition.topic_partition
        followed.delayed_until_ms = self._clock.monotonic_ms() + delay_ms
        self._delayed[topic_partition] = followed
        self.changed.pop(topic_partition, None)
        self._leave_session(followed)

    def resume(self, followed: Followed) -> None:
        """Fetch a delayed partition again."""
        topic_partition = followed.partition.topic_partition
        self._delayed.pop(topic_partition, None)
        self.changed[topic_partition] = None

    def resume_due(self, now_ms: int) -> None:
        """Fetch the partitions again whose delay is over."""
        if self._delayed:
            for topic_partition, followed in list(self._delayed.items()):
                if followed.delayed_until_ms <= now_ms:
                    del self._delayed[topic_partition]
                    self.changed[topic_partition] = None

    def _leave_session(self, followed: Followed) -> None:
        if followed.is_in_session:
            self.removed[followed.topic_key, followed.partition.topic_partition.partition] = None
        followed.is_in_session = False
        followed.sent = None

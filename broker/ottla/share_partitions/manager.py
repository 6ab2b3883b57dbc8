"""`SharePartitionManager`: the share-partitions of this node, the share sessions, and what is due by time.

A share-partition belongs to one leader epoch of its partition: it is dropped when this node leads the partition no more
or in another epoch, when the topic is deleted, and when a write is fenced. Members then fetch from the new leader. It
is also dropped when the group's last session on this node ends: the start offset may be reset while there is no member.

Source: SharePartitionManager, SharePartitionCache of Apache Kafka 4.3.1.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.log_lines import LineLimit
from ottla.ports import Clock, ConnectionId
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, clear_in_steps
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.share_partitions.key_queue import KeyQueue
from ottla.share_partitions.settings import ShareGroupSettings, SharePartitionsConfig
from ottla.share_partitions.share_partition import SharePartition
from ottla.share_partitions.share_session_cache import ShareSession, ShareSessionCache, ShareSessionKey
from ottla.share_partitions.share_waiters import ShareWaiters
from ottla.share_state.persister import Persister, SharePartitionKey, StateResult
from ottla.types import Offset

T = TypeVar("T")

_CHECK_INTERVAL_MS: Final = 100
"""How late a lock may time out; locks are of a second at least."""
_CHECKED_PER_TICK: Final = 256
_STEPS_PER_TICK: Final = 4
_RELEASE_NS: Final = 500_000
_WOKEN_PER_TICK: Final = 256
_PARTITIONS_PER_STEP: Final = 32
_CLEARED_PER_STEP: Final = 256


class SharePartitionManager:
    """See the module.

    Args of the constructor:
        group_config: returns a group's own settings.

    Attributes:
        acknowledged: how many records were acknowledged on this node, by acknowledge type.
    """

    def __init__(
        self,
        *,
        config: SharePartitionsConfig,
        clock: Clock,
        replicas: ReplicaManager,
        persister: Persister,
        group_config: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._persister = persister
        self.settings = ShareGroupSettings(lambda: self._config, group_config)
        self.sessions = ShareSessionCache(lambda: self._config.share_sessions_max)
        self.acknowledged: Counter[int] = Counter()
        self._share_partitions: dict[SharePartitionKey, tuple[SharePartition, Partition]] = {}
        self._by_group: dict[str, dict[SharePartitionKey, None]] = {}
        self._to_check: KeyQueue[SharePartitionKey] = KeyQueue()
        """Share-partitions in the order in which their leadership and log start are checked."""
        self._expiring: set[SharePartitionKey] = set()
        """Share-partitions whose timed out records are being released."""
        self._releases: deque[Steps[object]] = deque()
        self.waiters = ShareWaiters(replicas.fetch_purgatory, self._is_available)
        self._left_to_check = 0
        self._next_check_ms = 0
        self._line_limit = LineLimit(clock)
        self._lock_generation = 0
        """Raised whenever a session ends: it is released later, and its member may have returned by then."""

    def __len__(self) -> int:
        """Return the number of share-partitions."""
        return len(self._share_partitions)

    def __iter__(self) -> Iterator[tuple[SharePartition, Partition]]:
        """Yield every share-partition, with the partition that it reads."""
        return iter(self._share_partitions.values())

    def use_config(self, config: SharePartitionsConfig) -> None:
        """Apply settings that were changed while the node runs."""
        self._config = config

    # --- share-partitions

    def current(self, key: SharePartitionKey) -> SharePartition | None:
        """Return the share-partition as it is, also one of an older leader epoch."""
        found = self._share_partitions.get(key)
        return None if found is None else found[0]

    def find(self, key: SharePartitionKey, partition: Partition) -> SharePartition | None:
        """Return the share-partition of this leader epoch; one of an older epoch is dropped."""
        found = self._share_partitions.get(key)
        if found is None:
            return None
        share_partition, led = found
        if led is not partition or share_partition.leader_epoch != partition.leader_epoch or not partition.is_leader:
            self._drop(share_partition)
            return None
        share_partition.on_log_start(partition.log.log_start_offset)
        return share_partition

    def create(self, key: SharePartitionKey, partition: Partition, initial_offset: Offset | None) -> SharePartition:
        """Create the share-partition and read its state; ``initial_offset`` for a start by duration."""
        share_partition = SharePartition(
            key,
            leader_epoch=partition.leader_epoch,
            persister=self._persister,
            settings=self.settings,
            initial_offset=lambda reset: _initial_offset(partition, reset, initial_offset),
            on_available=self.waiters.note_change,
            on_fenced=self._drop,
            run_later=self._releases.append,
            lock_generation=lambda: self._lock_generation,
            may_log=self._line_limit.take_permit,
        )
        self._share_partitions[key] = share_partition, partition
        self._by_group.setdefault(key.group_id, {})[key] = None
        self._to_check.append(key)
        share_partition.initialize().on_complete(lambda _: self.waiters.note_change(key))
        return share_partition

    def _drop(self, share_partition: SharePartition) -> None:
        found = self._share_partitions.get(share_partition.key)
        if found is not None and found[0] is share_partition:
            del self._share_partitions[share_partition.key]
            keys = self._by_group[share_partition.key.group_id]
            del keys[share_partition.key]
            if not keys:
                del self._by_group[share_partition.key.group_id]
        share_partition.fence()
        self.waiters.note_change(share_partition.key)

    def _is_available(self, key: SharePartitionKey) -> bool | None:
        """Return whether a share-partition has anything to acquire; None if members must find that it is gone."""
        found = self._share_partitions.get(key)
        if found is None:
            return None
        share_partition, partition = found
        if not partition.is_leader or share_partition.leader_epoch != partition.leader_epoch:
            return None
        return share_partition.can_acquire() and share_partition.next_fetch_offset() < partition.log.high_watermark

    # --- members

    def release(self, session: ShareSession) -> Steps[list[Delayed[StateResult]]]:
        """Release what a session's member has acquired, in slices."""
        return self._finish_later(self._release_member(session))

    def _finish_later(self, steps: Steps[T]) -> Steps[T]:
        """Run the steps, which wait for nothing; those that are left when the client is gone, in the ticks."""
        is_ended = False
        try:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    is_ended = True
                    return end.value  # type: ignore[no-any-return]
                yield None
        finally:
            if not is_ended:
                self._releases.append(steps)

    def _release_member(self, session: ShareSession) -> Steps[list[Delayed[StateResult]]]:
        self._lock_generation += 1
        return self._release_older(session.key, session, self._lock_generation)

    def _release_older(
        self, key: ShareSessionKey, session: ShareSession, generation: int
    ) -> Steps[list[Delayed[StateResult]]]:
        written = []
        for number, each in enumerate(session.partitions, 1):
            found = self._share_partitions.get(SharePartitionKey(key.group_id, *each))
            if found is not None:
                written.append((yield from found[0].release_member(key.member_id, older_than=generation)))
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
        yield from clear_in_steps(session.partitions, _CLEARED_PER_STEP)
        yield from self._drop_without_members(key.group_id)
        return written

    def _drop_without_members(self, group_id: str) -> Steps[None]:
        # Writes that are under way finish: the next share-partition's read waits for them in the persister.
        for number, key in enumerate(list(self._by_group.get(group_id, ())), 1):
            if self.sessions.has_group(group_id):
                return
            found = self._share_partitions.get(key)
            if found is not None:
                self._drop(found[0])
            if number % _PARTITIONS_PER_STEP == 0:
                yield None

    def open_session(self, key: ShareSessionKey, connection: ConnectionId) -> ShareSession:
        """Open a session instead of an older one of the member.

        Raises:
            KafkaError: SHARE_SESSION_LIMIT_REACHED.
        """
        replaced = self.sessions.close(key)
        if replaced is not None:
            self._releases.append(clear_in_steps(replaced.partitions, _CLEARED_PER_STEP))
        return self.sessions.open(key, connection)

    def close_session(self, key: ShareSessionKey) -> None:
        """Close the session, if there is one; its records are released in slices at the next ticks."""
        session = self.sessions.close(key)
        if session is not None:
            self._releases.append(self._release_member(session))

    def on_connection_ended(self, connection: ConnectionId) -> None:
        """Close the connection's sessions; their records are released in slices at the next ticks."""
        for session in self.sessions.close_connection(connection):
            self._releases.append(self._release_member(session))

    # --- time

    def tick(self, now_ms: int) -> int | None:
        """Wake requests, release timed out records, check some share-partitions; return when to be called again."""
        self.waiters.wake_some(_WOKEN_PER_TICK)
        until_ns = self._clock.monotonic_ns() + _RELEASE_NS
        for _ in range(_STEPS_PER_TICK):
            if not self._releases or self._clock.monotonic_ns() > until_ns:
                break
            try:
                next(self._releases[0])
            except StopIteration:
                self._releases.popleft()
        if now_ms >= self._next_check_ms and not self._left_to_check:
            self._left_to_check = len(self._to_check)
            self._next_check_ms = now_ms + _CHECK_INTERVAL_MS
        for _ in range(min(self._left_to_check, _CHECKED_PER_TICK)):
            self._left_to_check -= 1
            self._check(self._to_check.pop(), now_ms)
        return self.next_deadline_ms()

    def _check(self, key: SharePartitionKey, now_ms: int) -> None:
        """Drop a share-partition that this node does not lead any more, release its timed out records."""
        found = self._share_partitions.get(key)
        if found is None:
            return
        share_partition, partition = found
        if not self._replicas.holds(partition) or self.find(key, partition) is not share_partition:
            self._drop(share_partition)
            return
        self._to_check.append(key)
        if share_partition.due_ms() <= now_ms and key not in self._expiring:
            self._expiring.add(key)
            self._releases.append(self._expire_locks(share_partition, partition, now_ms))

    def _expire_locks(self, share_partition: SharePartition, partition: Partition, now_ms: int) -> Steps[None]:
        try:
            count = yield from share_partition.expire_locks(now_ms)
            if self._replicas.holds(partition):
                # Else the topic may be deleted, and its counters with it.
                self._replicas.traffic_of(partition.topic_partition.topic).timed_out_records += count
        finally:
            self._expiring.discard(share_partition.key)

    def next_deadline_ms(self) -> int | None:
        if self._releases or self._left_to_check or self.waiters.is_due:
            return self._clock.monotonic_ms()
        return self._next_check_ms if self._share_partitions else None


def _initial_offset(partition: Partition, reset: str, by_duration: Offset | None) -> Offset:
    if reset == "earliest":
        return partition.log.log_start_offset
    if by_duration is not None:
        return by_duration
    if not partition.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition.log.high_watermark

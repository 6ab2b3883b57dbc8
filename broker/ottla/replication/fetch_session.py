"""Incremental fetch sessions: a consumer names its partitions once, and each response lists only what changed.

A session is a cached list of partitions with what the last response said of each. Requests carry (session id, epoch):
(0, 0) asks for a full fetch and a new session, (0, -1) for a full fetch without one, (id, -1) ends it, and (id, n)
continues it. The cache is bounded; a session may be evicted when it has been idle for two minutes, and a consumer's for
a follower's sake at any time.

So that a fetch of a thousand quiet partitions costs nothing, a session also remembers which of them may have anything
to say: `FetchNews` is told of every change to a partition and notes it in the sessions that hold it.

Source: KIP-227; FetchSession of Apache Kafka 4.3.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Random
from ottla.types import Offset, TopicPartition, Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from ottla.replication.partition import Partition

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
_MIN_IDLE_MS = 120_000
_INT32_MAX = 2**31 - 1

PartitionKey = tuple[str, Uuid, int]
"""(topic name, topic id, partition); the name is empty from v13 on, the id is zero before."""


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a session: what the client wants of it, and what it was told last.

    ``partition`` is where it was found the last time.
    """

    request: FetchPartition
    partition: "Partition | None" = None
    last_high_watermark: Offset = -2
    last_log_start_offset: Offset = -2
    had_error: bool = False


@dataclass(slots=True)
class FetchSession:
    session_id: int
    epoch: int
    uses_topic_ids: bool
    partitions: dict[PartitionKey, FetchedPartition]
    last_used_ms: int
    created_ms: int
    is_followers: bool = False
    pending: dict[PartitionKey, None] = field(default_factory=dict)
    """Those that must be looked at when the next answer is made, in the order to look."""
    unwatched: dict[PartitionKey, None] = field(default_factory=dict)
    """Those whose news nobody tells yet: when they were named, there was no such partition here."""
    is_open: bool = True
    permissions: int = 0
    """Of which state of the access control entries the last answer was."""


@dataclass(slots=True)
class FetchContext:
    """One request's partitions, and the session that it belongs to, if any.

    ``added`` are those that the session did not hold before, ``forgotten`` those that it holds no longer.
    """

    partitions: dict[PartitionKey, FetchedPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    added: list[PartitionKey] = field(default_factory=list)
    forgotten: list[PartitionKey] = field(default_factory=list)

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchNews:
    """Who is to look again when something about a partition changes: its log, its watermarks, its leader."""

    __slots__ = ("_watchers",)

    def __init__(self) -> None:
        self._watchers: dict[TopicPartition, list[tuple[FetchSession, PartitionKey]]] = {}

    def __len__(self) -> int:
        """Return how many partitions anybody watches."""
        return len(self._watchers)

    def watch(self, topic_partition: TopicPartition, session: FetchSession, key: PartitionKey) -> None:
        """Tell ``session`` of what happens to the partition, for as long as it is open and holds ``key``."""
        watchers = [watcher for watcher in self._watchers.get(topic_partition, ()) if _still_watches(*watcher)]
        if not any(watcher[0] is session and watcher[1] == key for watcher in watchers):
            watchers.append((session, key))
        self._watchers[topic_partition] = watchers

    def note(self, topic_partition: TopicPartition) -> list[FetchSession]:
        """Note a change in every session that holds the partition; return these."""
        watchers = self._watchers.get(topic_partition)
        if watchers is None:
            return []
        told = []
        for session, key in watchers:
            if session.is_open and key in session.partitions:
                session.pending[key] = None
                told.append(session)
        if not told:
            del self._watchers[topic_partition]
        elif len(told) < len(watchers):
            self._watchers[topic_partition] = [watcher for watcher in watchers if _still_watches(*watcher)]
        return told


def _still_watches(session: FetchSession, key: PartitionKey) -> bool:
    return session.is_open and key in session.partitions


@dataclass(slots=True, kw_only=True)
class FetchSessions:
    """The sessions of one node.

    ``slots_max``: max.incremental.fetch.session.cache.slots.
    """

    random: Random
    slots_max: int = 1_000
    _sessions: dict[int, FetchSession] = field(default_factory=dict)
    evictions: int = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(
        self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int, is_follower: bool = False
    ) -> FetchContext:
        """Return the partitions that ``request`` is about.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._close(request.session_id)
            partitions = {key: FetchedPartition(wanted) for key, wanted in _wanted(request.topics)}
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(partitions)
            session = self._create(partitions, uses_topic_ids=uses_topic_ids, now_ms=now_ms, is_followers=is_follower)
            return FetchContext(partitions, session, added=list(partitions))
        return self._continue(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

    def _continue(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        added = []
        for key, wanted in _wanted(request.topics):
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = FetchedPartition(wanted)
                added.append(key)
            else:
                known.request = wanted
            session.pending[key] = None
        forgotten = [
            (topic.topic, topic.topic_id, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ]
        for key in forgotten:
            session.partitions.pop(key, None)
            session.pending.pop(key, None)
            session.unwatched.pop(key, None)
        session.epoch = 1 if session.epoch == _INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        if not session.partitions:
            # Nothing left to watch: the client is told to start anew.
            self._close(session.session_id)
            return FetchContext({}, forgotten=forgotten)
        return FetchContext(session.partitions, session, is_incremental=True, added=added, forgotten=forgotten)

    def _create(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        *,
        uses_topic_ids: bool,
        now_ms: int,
        is_followers: bool,
    ) -> FetchSession | None:
        """Make a session unless the cache is full of sessions in use; clients then go on with full fetches."""
        if not partitions or self.slots_max <= 0:
            return None
        if len(self._sessions) >= self.slots_max and not self._evict(now_ms, is_for_follower=is_followers):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self.random.randrange(_INT32_MAX)
        session = FetchSession(
            session_id,
            1,
            uses_topic_ids,
            partitions,
            now_ms,
            now_ms,
            is_followers=is_followers,
            pending=dict.fromkeys(partitions),
        )
        self._sessions[session_id] = session
        return session

    def close(self, session: FetchSession) -> None:
        """Forget a session that nobody was told of."""
        self._close(session.session_id)

    def close_largest(self, *, partitions_min: int) -> int:
        """Close the consumer's session with the most partitions, if it has ``partitions_min``; return how many."""
        consumers = (session for session in self._sessions.values() if not session.is_followers)
        largest = max(consumers, key=lambda session: len(session.partitions), default=None)
        if largest is None or len(largest.partitions) < partitions_min:
            return 0
        self._close(largest.session_id)
        self.evictions += 1
        return len(largest.partitions)

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.is_open = False

    def _evict(self, now_ms: int, *, is_for_follower: bool) -> bool:
        """Make room for one session: of those of consumers first, the one that was used longest ago."""
        oldest = min(
            self._sessions.values(),
            key=lambda session: (session.is_followers, session.last_used_ms, session.session_id),
        )
        may_go = now_ms - oldest.last_used_ms > _MIN_IDLE_MS or (is_for_follower and not oldest.is_followers)
        if may_go and (is_for_follower or not oldest.is_followers):
            self._close(oldest.session_id)
            self.evictions += 1
            return True
        return False


def _wanted(topics: list[FetchTopic]) -> list[tuple[PartitionKey, FetchPartition]]:
    return [
        ((topic.topic, topic.topic_id, wanted.partition), wanted) for topic in topics for wanted in topic.partitions
    ]

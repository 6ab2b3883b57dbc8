"""Incremental fetch sessions: a consumer names its partitions once, and each response lists only what changed.

A session is a cached list of partitions with what the last response said of each. Requests carry (session id, epoch):
(0, 0) asks for a full fetch and a new session, (0, -1) for a full fetch without one, (id, -1) ends it, and (id, n)
continues it. The cache is bounded; a session may be evicted when it has been idle for two minutes.

Source: KIP-227; FetchSession of Apache Kafka 4.3.
"""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Random
from ottla.types import Offset, Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
_MIN_IDLE_MS = 120_000
_INT32_MAX = 2**31 - 1

PartitionKey = tuple[str, Uuid, int]
"""(topic name, topic id, partition); the name is empty from v13 on, the id is zero before."""


@dataclass(slots=True)
class FetchedPartition:
    """One partition of a session: what the client wants of it, and what it was told last."""

    request: FetchPartition
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


@dataclass(slots=True)
class FetchContext:
    """One request's partitions, and the session that it belongs to, if any."""

    partitions: dict[PartitionKey, FetchedPartition]
    session_id: int = NO_SESSION
    is_incremental: bool = False


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

    def begin(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """Return the partitions that ``request`` is about.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            partitions = {key: FetchedPartition(wanted) for key, wanted in _wanted(request.topics)}
            if request.session_epoch == FINAL_EPOCH:
                return FetchContext(partitions)
            session = self._create(partitions, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
            return FetchContext(partitions, session.session_id if session else NO_SESSION)
        return self._continue(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

    def _continue(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        for key, wanted in _wanted(request.topics):
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = FetchedPartition(wanted)
            else:
                known.request = wanted
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.partitions.pop((topic.topic, topic.topic_id, partition), None)
        session.epoch = 1 if session.epoch == _INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        if not session.partitions:
            # Nothing left to watch: the client is told to start anew.
            del self._sessions[session.session_id]
            return FetchContext({})
        return FetchContext(session.partitions, session.session_id, is_incremental=True)

    def _create(
        self, partitions: dict[PartitionKey, FetchedPartition], *, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Make a session unless the cache is full of sessions in use; clients then go on with full fetches."""
        if not partitions or self.slots_max <= 0:
            return None
        if len(self._sessions) >= self.slots_max and not self._evict(now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self.random.randrange(_INT32_MAX)
        session = FetchSession(session_id, 1, uses_topic_ids, partitions, now_ms, now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: (session.last_used_ms, session.session_id))
        if now_ms - oldest.last_used_ms <= _MIN_IDLE_MS:
            return False
        del self._sessions[oldest.session_id]
        self.evictions += 1
        return True


def _wanted(topics: list[FetchTopic]) -> list[tuple[PartitionKey, FetchPartition]]:
    return [
        ((topic.topic, topic.topic_id, wanted.partition), wanted) for topic in topics for wanted in topic.partitions
    ]

"""Incremental fetch sessions: a consumer names its partitions once, and each response lists only what changed.

A session is a cached list of partitions with the last response's data of each. Requests carry (session id, epoch):
(0, 0) is a full fetch that creates a session, (0, -1) a full fetch without one, (id, -1) closes it, and (id, n)
continues it. The sessions of a node are bounded in number and in bytes. A session may be evicted when it has been idle
for two minutes, and a consumer's for a follower's sake at any time; a full fetch for which there is no capacity is
served without a session, which every client accepts.

Source: KIP-227; FetchContext, FetchSessionCacheShard of Apache Kafka 4.3.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Random
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches
from ottla.replication.sessions.fetch_session import (
    DROPPED_PER_SLICE,
    NO_SESSION,
    FetchContext,
    FetchedPartition,
    FetchSession,
    PartitionKey,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, next_epoch

logger = logging.getLogger(__name__)

_UPDATED_NOW = -2
"""The epoch of a session while a request changes its partitions in slices: no other request has it."""
_MIN_IDLE_MS = 120_000
_INT32_MAX = 2**31 - 1

PARTITION_BYTES: Final = 400
"""Estimated size of one partition of a session, without its topic's name: measured, with dictionary entries."""
_PARTITIONS_PER_SLICE = 32
_LINE_INTERVAL_MS = 60_000


@dataclass(slots=True, kw_only=True)
class FetchSessionCache:
    """The sessions of one node.

    ``slots_max``: max.incremental.fetch.session.cache.slots; ``bytes_max``: ottla.fetch.session.cache.bytes.

    Attributes:
        size_bytes: estimated size of all sessions.
        evictions: sessions evicted for the capacity of others.
        rejections: sessions that clients did not get, or lost as they grew, for want of capacity.
    """

    random: Random
    slots_max: int = 1_000
    bytes_max: int = 32 * 1024 * 1024
    size_bytes: int = 0
    evictions: int = 0
    rejections: int = 0
    _sessions: dict[int, FetchSession] = field(default_factory=dict)
    _ended: deque[FetchSession] = field(default_factory=deque)
    _unlisted: int = 0
    _silent_until_ms: int = -1

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    # --- requests

    def open_context(
        self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int, is_follower: bool = False
    ) -> FetchContext:
        """Return the partitions of ``request``.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
        """
        context = self._open(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        self._add_named(context, _wanted(request.topics), now_ms)
        if request.forgotten_topics_data:
            self._remove(context, filter(None, _removals(request.forgotten_topics_data)))
        self._settle(context, request, uses_topic_ids=uses_topic_ids, now_ms=now_ms, is_follower=is_follower)
        if context.session is not None and not context.is_incremental:
            context.session.pending = dict.fromkeys(context.partitions)
        return context

    def open_in_slices(
        self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int, is_follower: bool = False
    ) -> Steps[FetchContext]:
        """Do the same as `open_context`, with a session in any case; the partitions are taken out of ``request``.

        In a new session none of them is pending yet: another dictionary of all of them takes megabytes.
        """
        context = self._open(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        is_settled = False
        try:
            for named in batches(_taken(request.topics), _PARTITIONS_PER_SLICE):
                self._add_named(context, filter(None, named), now_ms)
                self._drop_ended()
                yield None
            for removed in batches(_removals(request.forgotten_topics_data), _PARTITIONS_PER_SLICE):
                self._remove(context, filter(None, removed))
                yield None
            self._settle(context, request, uses_topic_ids=uses_topic_ids, now_ms=now_ms, is_follower=is_follower)
            is_settled = True
        finally:
            if not is_settled and context.session is not None:
                # Abandoned half way: the client would assume other partitions in the session.
                self.close(context.session)
        if context.session is None:
            self._unlisted += 1
            context.session = FetchSession(
                -self._unlisted, 0, uses_topic_ids, context.partitions, now_ms, now_ms, is_followers=is_follower
            )
        return context

    def _open(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """Return the context before the request's partitions are added."""
        self._drop_ended()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._close(request.session_id)
            return FetchContext({})
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = _UPDATED_NOW
        session.last_used_ms = now_ms
        # Not the time of this request, which may have waited in a socket while this node was paused.
        session.confirmed_ms = session.responded_ms
        return FetchContext(session.partitions, session, is_incremental=True)

    def _add_named(
        self, context: FetchContext, named: Iterable[tuple[PartitionKey, FetchPartition]], now_ms: int
    ) -> None:
        """Add or update partitions that the request names; of several entries for one partition the last counts."""
        partitions, session = context.partitions, context.session
        added_bytes = 0
        for key, wanted in named:
            known = partitions.get(key)
            if known is not None:
                known.update(wanted)
            else:
                partitions[key] = FetchedPartition(
                    wanted.fetch_offset,
                    wanted.partition_max_bytes,
                    wanted.current_leader_epoch,
                    wanted.last_fetched_epoch,
                    wanted.log_start_offset,
                )
                added_bytes += PARTITION_BYTES + len(key[0])
            if session is not None:
                session.pending[key] = None
                session.failed.pop(key, None)
        if session is None:
            context.size_bytes += added_bytes
        elif added_bytes:
            self._grow(session, added_bytes, now_ms)

    def _grow(self, session: FetchSession, added_bytes: int, now_ms: int) -> None:
        if not self._evict_for(added_bytes, now_ms, is_for_follower=session.is_followers):
            # As if it had been evicted: the client continues with a full fetch.
            self.close(session)
            self._reject(len(session.partitions), now_ms)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.size_bytes += added_bytes
        self.size_bytes += added_bytes

    def _remove(self, context: FetchContext, removed: Iterable[PartitionKey]) -> None:
        session = context.session
        if session is None:
            return
        for key in removed:
            if session.remove(key):
                context.removed.append(key)
                session.size_bytes -= PARTITION_BYTES + len(key[0])
                self.size_bytes -= PARTITION_BYTES + len(key[0])

    def _settle(
        self, context: FetchContext, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int, is_follower: bool
    ) -> None:
        """Create the session of a full fetch, or advance the one that is continued."""
        session = context.session
        if session is None:
            if request.session_epoch == INITIAL_EPOCH:
                context.session = self._create(
                    context, uses_topic_ids=uses_topic_ids, now_ms=now_ms, is_followers=is_follower
                )
                context.epoch = 0 if context.session is None else context.session.epoch
        elif session.partitions:
            session.epoch = context.epoch = next_epoch(request.session_epoch)
        else:
            # Nothing is left to watch: the client is sent no session id, and starts another session.
            self.close(session)
            context.session, context.is_incremental = None, False
            context.partitions = {}
            self._add_named(context, _wanted(request.topics), now_ms)

    def _create(
        self, context: FetchContext, *, uses_topic_ids: bool, now_ms: int, is_followers: bool
    ) -> FetchSession | None:
        """Return a new session unless there is no capacity; clients then continue with full fetches."""
        partitions = context.partitions
        if not partitions or self.slots_max <= 0:
            return None
        if not self._evict_for(context.size_bytes, now_ms, is_for_follower=is_followers, slots=1):
            self._reject(len(partitions), now_ms)
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
            size_bytes=context.size_bytes,
        )
        self._sessions[session_id] = session
        self.size_bytes += session.size_bytes
        return session

    # --- end of sessions

    def close(self, session: FetchSession) -> None:
        """Close a session: that of one fetch, or one whose id the client was not sent or must not use any more."""
        session.is_open = False
        if session.session_id > NO_SESSION:
            self._close(session.session_id)
        elif len(session.partitions) > DROPPED_PER_SLICE:
            self._ended.append(session)

    def close_when_abandoned(self, session: FetchSession, delayed: "Delayed[Any]") -> None:
        """Close the session also when ``delayed``, which waits in a purgatory, is abandoned."""
        abandon = delayed.on_abandon
        assert abandon is not None, "it waits in a purgatory"

        def abandon_and_close() -> None:
            abandon()
            self.close(session)

        delayed.on_abandon = abandon_and_close

    def free(self, session: FetchSession) -> Steps[None]:
        """Close the session of one fetch, and free its memory in slices."""
        session.is_open = False
        while session.partitions:
            session.drop_some()
            yield None

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
        if session is None:
            return
        session.is_open = False
        self.size_bytes -= session.size_bytes
        if len(session.partitions) > DROPPED_PER_SLICE:
            self._ended.append(session)

    def _drop_ended(self) -> None:
        """Free some partitions of a large session that has ended: all of them at once would take milliseconds."""
        if self._ended:
            self._ended[0].drop_some()
            if not self._ended[0].partitions:
                self._ended.popleft()

    def _evict_for(self, size_bytes: int, now_ms: int, *, is_for_follower: bool, slots: int = 0) -> bool:
        """Evict sessions until there is capacity; return whether there is. A follower always gets its bytes."""
        if self._has_capacity(size_bytes, slots):
            return True
        oldest_first = sorted(
            self._sessions.values(),
            key=lambda session: (session.is_followers, session.last_used_ms, session.session_id),
        )
        for oldest in oldest_first:
            is_idle = now_ms - oldest.last_used_ms > _MIN_IDLE_MS
            may_go = is_idle if oldest.is_followers == is_for_follower else is_for_follower
            if not may_go:
                break
            self._close(oldest.session_id)
            self.evictions += 1
            if self._has_capacity(size_bytes, slots):
                return True
        return is_for_follower and len(self._sessions) + slots <= self.slots_max

    def _has_capacity(self, size_bytes: int, slots: int) -> bool:
        return self.size_bytes + size_bytes <= self.bytes_max and len(self._sessions) + slots <= self.slots_max

    def _reject(self, partition_count: int, now_ms: int) -> None:
        self.rejections += 1
        if now_ms >= self._silent_until_ms:
            self._silent_until_ms = now_ms + _LINE_INTERVAL_MS
            logger.warning(
                "no fetch session for %d partitions, of %d rejected so far: %d of %d sessions "
                "(max.incremental.fetch.session.cache.slots) and %d of %d bytes (ottla.fetch.session.cache.bytes) are "
                "in use; the clients fetch without",
                partition_count,
                self.rejections,
                len(self._sessions),
                self.slots_max,
                self.size_bytes,
                self.bytes_max,
            )


def _wanted(topics: list[FetchTopic]) -> Iterator[tuple[PartitionKey, FetchPartition]]:
    for topic in topics:
        for wanted in topic.partitions:
            yield (topic.topic, topic.topic_id, wanted.partition), wanted


def _taken(topics: list[FetchTopic]) -> Iterator[tuple[PartitionKey, FetchPartition] | None]:
    """Do the same, and free what was yielded: a request of many partitions takes as much memory as its session.

    None is yielded after each topic: topics without partitions take time as well.
    """
    topics.reverse()
    while topics:
        topic = topics.pop()
        topic.partitions.reverse()
        while topic.partitions:
            wanted = topic.partitions.pop()
            yield (topic.topic, topic.topic_id, wanted.partition), wanted
        yield None


def _removals(topics: list[ForgottenTopic]) -> Iterator[PartitionKey | None]:
    for topic in topics:
        for partition in topic.partitions:
            yield (topic.topic, topic.topic_id, partition)
        yield None

"""`FetchRound`: one Fetch of a consumer or a follower being answered; may read several times, responds once.

In a session only the pending partitions are looked at, again and again while they have something to say; what was
found of the quiet ones is kept until something changes about them. Up to `STRAIGHT_MAX` partitions are looked at in one
go. More of them are looked at in slices (`purgatory.steps`), between which other requests are served: a client may name
as many as it likes, and thousands of them may change at once.

An error is reported when it is new, when the client names the partition again, and else only now and then
(`FetchSession.retry_failed`), unlike in Kafka, where each fetch of a session reports every error.

Source: DelayedFetch, ReplicaManager.readFromLog, FetchSession.maybeUpdateResponseData of Apache Kafka 4.3.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches, clear_in_steps
from ottla.replication.fetch.fetch_origin import FetchAnswer, FetchOrigin, NameLeader
from ottla.replication.partition import Partition
from ottla.replication.sessions.fetch_session import (
    RETRY_MS,
    FetchContext,
    FetchedPartition,
    FetchSession,
    PartitionKey,
)
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

STRAIGHT_MAX: Final = 32
"""Partitions that are looked at without a break: they take 100 to 300 us."""
PER_SLICE: Final = 16
_COMPACTED_MAX = 1_000

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_NODE_ENDPOINTS = 16
_BEFORE_READING = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Found before a log is read: Kafka lists no aborted transactions ([]) then, and null where they were not asked for."""
# Shared by the answers of all partitions, which replace them and never change them.
_NO_DIVERGENCE, _NO_LEADER, _NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()
_ANSWERED: Final = FetchedPartition(-1)
"""In the place of a partition with an error, in the session of a single fetch: a hundred bytes less for each."""


class FetchRound:
    """See the module; ``name_leader`` is called for partitions that have moved to another leader."""

    def __init__(
        self, origin: FetchOrigin, request: FetchRequest, session: FetchContext, name_leader: NameLeader
    ) -> None:
        self.origin = origin
        self.session = session
        self._name_leader = name_leader
        self.replicas = origin.services.replicas
        self.response = FetchResponse()
        self.wait_ms_max = request.max_wait_ms
        self._uses_topic_ids = origin.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        size_bytes_max = origin.services.config.fetch_max_bytes
        self._size_bytes_max = request.max_bytes if request.max_bytes < size_bytes_max else size_bytes_max
        self._min_bytes = request.min_bytes
        self._answers: dict[PartitionKey, PartitionData] = {}
        self._is_urgent = False
        self._size_bytes = 0
        self._retry_at_ms = 0
        self._notes_seen = 0
        self._topics: dict[object, FetchableTopicResponse] = {}
        """What is in the response."""

    # --- the course of a round

    def start(self) -> FetchAnswer:
        """Return the answer, or what it comes from: `Steps` where many partitions have to be looked at, a `Delayed`."""
        session = self.session.session
        if session is not None:
            if session.failed:
                session.retry_failed(self.origin.received_at_ms)
            if self._takes_slices(session):
                return self.run(session)
        self._prepare(self._pending())
        self._finish_preparing()
        if self.read() or self.wait_ms_max <= 0:
            return self._finish()
        return self.replicas.fetch_purgatory.watch(
            self._keys(),
            deadline_ms=self._deadline_ms(),
            try_complete=self.retry,
            on_deadline=self._read_and_finish,
            is_tried=True,
        )

    def run(self, session: FetchSession, *, is_prepared: bool = False) -> Steps[FetchAnswer]:
        """Do what `start` does for many partitions, a slice at a time; return the response, or a `Delayed` of more."""
        answer: FetchAnswer = None
        try:
            if is_prepared:
                yield None
                session.retry_failed(self.origin.services.clock.monotonic_ms())
            else:
                yield from self._prepare_in_slices(session)
            is_enough = yield from self._read_in_slices(session, self._keys_to_read(session, is_again=is_prepared))
            is_late = self.origin.services.clock.monotonic_ms() >= self.origin.received_at_ms + self.wait_ms_max
            if is_enough or is_late or self._must_hurry():
                answer = yield from self._respond_in_slices()
                yield from clear_in_steps(self._answers, 16 * PER_SLICE)
                yield from clear_in_steps(self._topics, 16 * PER_SLICE)
                if len(session.pending) < _COMPACTED_MAX:
                    # What was removed from a dictionary keeps its place, and every walk over the others passes it.
                    session.pending = dict(session.pending)
                if session.session_id < 0:
                    # Before the response is encoded: both together take half as much again.
                    yield from self.origin.services.fetch_sessions.free(session)
            else:
                answer = self._wait_for_news(session)
            return answer
        finally:
            if session.session_id < 0 and not isinstance(answer, Delayed):
                self.origin.services.fetch_sessions.close(session)

    def _wait_for_news(self, session: FetchSession) -> "Delayed[FetchAnswer]":
        """Return a `Delayed` of the steps to continue with. Few large requests run at a time: none waits as one."""
        answer: Delayed[FetchAnswer] = self.replicas.fetch_purgatory.watch(
            [session.session_id],
            deadline_ms=self._deadline_ms(),
            try_complete=lambda: self._continue(session) if self._is_worth_a_look(session) else None,
            on_deadline=lambda: self._continue(session),
        )
        if session.session_id < 0 and not answer.is_complete:
            self.origin.services.fetch_sessions.close_when_abandoned(session, answer)
        return answer

    def _continue(self, session: FetchSession) -> Steps[FetchAnswer]:
        steps = self.run(session, is_prepared=True)
        next(steps)  # What has begun closes the session even where nothing ever runs it to its end.
        return steps

    def _takes_slices(self, session: FetchSession) -> bool:
        return len(session.pending) > STRAIGHT_MAX

    def _prepare(self, keys: Iterable[PartitionKey]) -> None:
        """Take note of what the request says of these partitions."""

    def _finish_preparing(self) -> None:
        """Do what has to come after `_prepare` of all pending partitions."""

    def _keys_to_read(self, session: FetchSession, *, is_again: bool = False) -> list[PartitionKey]:
        """Return all partitions of a new session, else those that are pending."""
        return list(session.pending if is_again or self.session.is_incremental else session.partitions)

    def _prepare_in_slices(self, session: FetchSession) -> Steps[None]:
        for keys in batches(self._keys_to_read(session), PER_SLICE):
            self._prepare(keys)
            yield None
        self._finish_preparing()

    def _must_hurry(self) -> bool:
        """Return whether the client needs the answer now, though there is not enough in it."""
        return False

    def _deadline_ms(self) -> int:
        """Return when to answer at the latest: when time is up, or when an error is to be reported once more."""
        deadline_ms = self.origin.received_at_ms + self.wait_ms_max
        session = self.session.session
        if session is not None and session.failed:
            return min(deadline_ms, next(iter(session.failed.values())))
        return deadline_ms

    def _keys(self) -> list[Hashable]:
        """Return what must change for another try to make sense."""
        if self.session.session is not None:
            return [self.session.session.session_id]
        return [
            TopicPartition(topic, key[2])
            for key in self.session.partitions
            if (topic := self._topic_of(key)) is not None
        ]

    def retry(self) -> FetchAnswer:
        """Return the answer if enough came in, else None; cheap while nothing did."""
        if self._must_hurry():
            return self._read_and_finish()
        session = self.session.session
        if session is not None and self._takes_slices(session):
            return self.run(session, is_prepared=True)
        return self._finish() if self._has_news() and self.read() else None

    def _is_worth_a_look(self, session: FetchSession) -> bool | None:
        if self._must_hurry():
            return True
        if session.notes == self._notes_seen:
            return None
        if not self._takes_slices(session) and not self._has_news():
            self._notes_seen = session.notes
            return None
        return True

    def _read_and_finish(self) -> FetchAnswer:
        session = self.session.session
        if session is not None:
            session.retry_failed(self.origin.services.clock.monotonic_ms())
            if self._takes_slices(session):
                self.wait_ms_max = 0
                return self.run(session, is_prepared=True)
        self.read()
        return self._finish()

    # --- reading

    def _pending(self) -> list[PartitionKey]:
        session = self.session.session
        return list(self.session.partitions if session is None else session.pending)

    def read(self) -> bool:
        """Read what is pending within the limits; return whether the client need not wait any longer."""
        self._begin_reading()
        self._read(self._pending())
        return self._is_enough()

    def _read_in_slices(self, session: FetchSession, pending: list[PartitionKey]) -> Steps[bool]:
        self._notes_seen = session.notes
        self._begin_reading()
        for keys in batches(pending, PER_SLICE):
            self._read(keys)
            self._collect_errors(session, keys)
            yield None
            if self.session.is_superseded:
                return True
        return self._is_enough()

    def _collect_errors(self, session: FetchSession, keys: Iterable[PartitionKey]) -> None:
        """Put errors into the response at once, which follows: of many a request's partitions nothing else is kept."""
        failed = [key for key in keys if key in self._answers and self._answers[key].error_code]
        self._collect(failed)
        for key in failed:
            del self._answers[key]
            if session.session_id < 0:
                session.partitions[key] = _ANSWERED

    def _begin_reading(self) -> None:
        self._is_urgent = False
        self._size_bytes = 0
        self._retry_at_ms = 0

    def _is_enough(self) -> bool:
        return self._is_urgent or not self.session.partitions or self._size_bytes >= self._min_bytes

    def _read(self, keys: Iterable[PartitionKey]) -> None:
        session, partitions = self.session.session, self.session.partitions
        for key in keys:
            fetched = partitions.get(key)
            if fetched is None:
                continue  # forgotten between two slices
            answer = PartitionData(
                partition_index=key[2],
                diverging_epoch=_NO_DIVERGENCE,
                current_leader=_NO_LEADER,
                snapshot_id=_NO_SNAPSHOT,
                records=b"",
                aborted_transactions=None,
            )
            try:
                is_quiet = self._read_partition(key, fetched, answer)
            except KafkaError as error:
                self._note_error(key, fetched, answer, error)
                continue
            self._answers[key] = answer
            if session is not None:
                if not fetched.is_watched:
                    self._watch(session, key, fetched)
                if session.failed:
                    session.failed.pop(key, None)
                if is_quiet:
                    session.pending.pop(key, None)
                else:
                    session.pending[key] = None

    def _watch(self, session: FetchSession, key: PartitionKey, fetched: FetchedPartition) -> None:
        """Have the session notified of news. What does not exist must not be watched: nothing would ever clean up."""
        topic = self._topic_of(key)
        topic_partition = None if topic is None else TopicPartition(topic, key[2])
        if topic_partition is not None and self.origin.services.metadata.partition(topic_partition) is not None:
            self.replicas.watchers.watch(topic_partition, session, key, fetched)

    def _note_error(
        self, key: PartitionKey, fetched: FetchedPartition, answer: PartitionData, error: KafkaError
    ) -> None:
        """Report an error, unless the session's client has been sent the same."""
        session = self.session.session
        if session is not None:
            if not fetched.is_watched and error.code not in _BEFORE_READING:
                self._watch(session, key, fetched)
            is_known = fetched.error_code == error.code
            session.pending.pop(key, None)
            if session.session_id > 0 and (not is_known or key not in session.failed):
                if not self._retry_at_ms:
                    self._retry_at_ms = self.origin.services.clock.monotonic_ms() + RETRY_MS
                session.note_failed(key, self._retry_at_ms)
            if is_known:
                self._answers.pop(key, None)
                return
        self._is_urgent = True
        self._answers[key] = answer
        answer.error_code = error.code
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        if error.code in _BEFORE_READING:
            answer.aborted_transactions = []
        topic = self._topic_of(key)
        if topic is None or self.origin.services.metadata.topic(topic) is None:
            return
        self.replicas.traffic_of(topic).failed_fetch_requests += 1
        is_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if is_moved and self.origin.api_version >= _FIRST_VERSION_WITH_NODE_ENDPOINTS:
            answer.current_leader = LeaderIdAndEpoch()
            self._name_leader(answer.current_leader, self.response.node_endpoints, topic, key[2])

    def _has_news(self) -> bool:
        """Return whether any partition has records beyond what is asked for, or cannot be read any more."""
        for key in self._pending():
            fetched = self.session.partitions.get(key)
            if fetched is None:
                continue
            try:
                is_news = self._is_news(self._partition_of(key, fetched), fetched)
            except KafkaError:
                return True
            if is_news:
                return True
        return False

    def _topic_of(self, key: PartitionKey) -> str | None:
        return self.origin.services.metadata.topic_name(key[1]) if self._uses_topic_ids else key[0]

    def _partition_of(self, key: PartitionKey, fetched: FetchedPartition) -> Partition:
        partition = fetched.partition
        if partition is not None and self.replicas.holds(partition):
            return partition
        topic = self._topic_of(key)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = fetched.partition = self.replicas.get(topic, key[2])
        return partition

    def _is_news(self, partition: Partition, wanted: FetchedPartition) -> bool:
        raise NotImplementedError

    def _read_partition(self, key: PartitionKey, wanted: FetchedPartition, answer: PartitionData) -> bool:
        """Fill in ``answer``; return whether the partition has nothing more until something changes about it."""
        raise NotImplementedError

    def _fill_watermarks(self, partition: Partition, answer: PartitionData) -> None:
        log = partition.log
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset

    def _room_bytes(self, wanted: FetchedPartition) -> int:
        left_bytes = self._size_bytes_max - self._size_bytes
        return wanted.partition_max_bytes if wanted.partition_max_bytes < left_bytes else left_bytes

    def _diverges(self, partition: Partition, wanted: FetchedPartition, answer: PartitionData) -> bool:
        """Report where the reader's log parts from ours, if it does: it must truncate before it reads on."""
        if wanted.last_fetched_epoch < 0:
            return False
        end = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        if end is None:
            return False
        answer.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
        self._is_urgent = True
        return True

    # --- responding

    def _finish(self) -> FetchAnswer:
        return self.respond() if len(self._answers) <= STRAIGHT_MAX else self._respond_in_slices()

    def respond(self) -> FetchResponse:
        """Put what was read into the response; in an incremental session only what changed."""
        if self.session.is_superseded:
            return self._superseded()
        if self.origin.charge is not None:
            throttled = self._throttle(sum(1 for answer in self._answers.values() if answer.records))
            if throttled is not None:
                return throttled
        self._collect(self._answers)
        return self._complete()

    def _respond_in_slices(self) -> Steps[FetchResponse]:
        with_records = 0
        for answers in batches(list(self._answers.values()), 16 * PER_SLICE):
            with_records += sum(1 for answer in answers if answer.records)
            yield None
        if self.session.is_superseded:
            return self._superseded()
        throttled = self._throttle(with_records)
        if throttled is not None:
            return throttled
        for keys in batches(list(self._answers), 2 * PER_SLICE):
            self._collect(keys)
            yield None
            if self.session.is_superseded:
                return self._superseded()
        return self._complete()

    def _superseded(self) -> FetchResponse:
        """Return what Kafka answers when a later request has continued the session meanwhile."""
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self.session.session_id)

    def _throttle(self, with_records: int) -> FetchResponse | None:
        """Return what to answer instead where a quota is exceeded; ``with_records``: partitions that have some."""
        return None

    def _collect(self, keys: Iterable[PartitionKey]) -> None:
        """Add the answers of these partitions to the response."""
        session, topics = self.session.session, self._topics
        for key in keys:
            answer, fetched = self._answers[key], self.session.partitions.get(key)
            if fetched is None:
                continue
            is_news = fetched.note_sent(answer)
            if self.session.is_incremental and not is_news:
                continue
            topic = topics.get(key[:2])
            if topic is None:
                topic = topics[key[:2]] = FetchableTopicResponse(topic=key[0], topic_id=key[1])
                self.response.responses.append(topic)
            topic.partitions.append(answer)
            if answer.records and session is not None:
                # What was served comes last next time, so that a small max_bytes starves no partition.
                self.session.partitions[key] = self.session.partitions.pop(key)
                session.pending.pop(key, None)
                session.pending[key] = None

    def _complete(self) -> FetchResponse:
        self.response.session_id = self.session.session_id
        return self.response

"""`FetchRound`: serves one Fetch of a consumer or a follower; may read several times, responds once.

In a session only the pending partitions are checked, repeatedly while they have new data; the last response of the
quiet ones stays valid until something about them changes. Up to `STRAIGHT_MAX` partitions are checked without a break.
More are checked in slices (`purgatory.steps`), between which other requests are served: a client may name any number of
partitions, and thousands of them may change at once.

An error is reported when it is new, when the client names the partition again, and otherwise only now and then
(`FetchSession.retry_failed`), unlike in Kafka, where each fetch of a session reports every error.

Source: DelayedFetch, ReplicaManager.readFromLog, FetchSession.maybeUpdateResponseData of Apache Kafka 4.3.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, batches, clear_in_steps
from ottla.replication.fetch.fetch_origin import FetchOrigin, FetchResult, NameLeader
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
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

STRAIGHT_MAX: Final = 32
"""Partitions that are checked without a break: they take 100 to 300 us."""
PER_SLICE: Final = 16
_COMPACTED_MAX = 1_000

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_NODE_ENDPOINTS = 16
_BEFORE_READING = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Errors found before a log is read: Kafka lists no aborted transactions ([]) then, and null if not requested."""
# Shared by the response data of all partitions, which replace them and never change them: a list of its own for each of
# 90,000 unknown partitions took 5 MB.
_NO_DIVERGENCE, _NO_LEADER, _NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()
_NO_TRANSACTIONS: Final[list[AbortedTransaction]] = []
_RESPONDED: Final = FetchedPartition(-1)
"""Replaces a partition with an error in the session of a single fetch: a hundred bytes less for each."""


class FetchRound:
    """See the module; ``name_leader`` is called for partitions whose leader has changed."""

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
        self._partition_data: dict[PartitionKey, PartitionData] = {}
        self._is_urgent = False
        self._size_bytes = 0
        self._retry_at_ms = 0
        self._notes_seen = 0
        self._topics: dict[object, FetchableTopicResponse] = {}
        """Topics of the response."""

    # --- lifecycle of a round

    def start(self) -> FetchResult:
        """Return the response; for many partitions the `Steps`, for a round that waits a `Delayed`, that produce it."""
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

    def run(self, session: FetchSession, *, is_prepared: bool = False) -> Steps[FetchResult]:
        """Do the same as `start` for many partitions, a slice at a time; return the response, or a `Delayed` of it."""
        result: FetchResult = None
        try:
            if is_prepared:
                yield None
                session.retry_failed(self.origin.services.clock.monotonic_ms())
            else:
                yield from self._prepare_in_slices(session)
            is_enough = yield from self._read_in_slices(session, self._keys_to_read(session, is_again=is_prepared))
            is_late = self.origin.services.clock.monotonic_ms() >= self.origin.received_at_ms + self.wait_ms_max
            if is_enough or is_late or self._must_hurry():
                result = yield from self._respond_in_slices()
                yield from clear_in_steps(self._partition_data, 16 * PER_SLICE)
                yield from clear_in_steps(self._topics, 16 * PER_SLICE)
                if len(session.pending) < _COMPACTED_MAX:
                    # Removed entries of a dictionary keep their place, and every iteration over the others passes them.
                    session.pending = dict(session.pending)
                if session.session_id < 0:
                    # Before the response is encoded: both together would take half as much again.
                    yield from self.origin.services.fetch_sessions.free(session)
            else:
                result = self._wait_for_data(session)
            return result
        finally:
            if session.session_id < 0 and not isinstance(result, Delayed):
                self.origin.services.fetch_sessions.close(session)

    def _wait_for_data(self, session: FetchSession) -> "Delayed[FetchResult]":
        """Return a `Delayed` of the steps to continue with. Few large requests run at a time: none waits as one."""
        delayed: Delayed[FetchResult] = self.replicas.fetch_purgatory.watch(
            [session.session_id],
            deadline_ms=self._deadline_ms(),
            try_complete=lambda: self._continue(session) if self._should_continue(session) else None,
            on_deadline=lambda: self._continue(session),
        )
        if session.session_id < 0 and not delayed.is_complete:
            self.origin.services.fetch_sessions.close_when_abandoned(session, delayed)
        return delayed

    def _continue(self, session: FetchSession) -> Steps[FetchResult]:
        steps = self.run(session, is_prepared=True)
        next(steps)  # A started generator closes the session even if it never runs to its end.
        return steps

    def _takes_slices(self, session: FetchSession) -> bool:
        return len(session.pending) > (1 if self.replicas.has_logs_to_create else STRAIGHT_MAX)

    def _prepare(self, keys: Iterable[PartitionKey]) -> None:
        """Process the request's fields of these partitions."""

    def _finish_preparing(self) -> None:
        """Run once after `_prepare` of all pending partitions."""

    def _keys_to_read(self, session: FetchSession, *, is_again: bool = False) -> list[PartitionKey]:
        """Return all partitions of a new session, else those that are pending."""
        return list(session.pending if is_again or self.session.is_incremental else session.partitions)

    def _prepare_in_slices(self, session: FetchSession) -> Steps[None]:
        keys_to_read = self._keys_to_read(session)
        for keys in batches(keys_to_read, 1 if self.replicas.has_logs_to_create else PER_SLICE):
            self._prepare(keys)
            yield None
        self._finish_preparing()

    def _must_hurry(self) -> bool:
        """Return whether the client needs the response now, though it is below the minimum size."""
        return False

    def _deadline_ms(self) -> int:
        """Return the latest time to respond: when the wait is over, or when an error must be reported again."""
        deadline_ms = self.origin.received_at_ms + self.wait_ms_max
        session = self.session.session
        if session is not None and session.failed:
            return min(deadline_ms, next(iter(session.failed.values())))
        return deadline_ms

    def _keys(self) -> list[Hashable]:
        """Return the keys whose change makes another try worthwhile."""
        if self.session.session is not None:
            return [self.session.session.session_id]
        return [
            TopicPartition(topic, key[2])
            for key in self.session.partitions
            if (topic := self._topic_of(key)) is not None
        ]

    def retry(self) -> FetchResult:
        """Return the result if enough data has arrived, else None; cheap while nothing has changed."""
        if self._must_hurry():
            return self._read_and_finish()
        session = self.session.session
        if session is not None and self._takes_slices(session):
            return self.run(session, is_prepared=True)
        return self._finish() if self._any_has_new_data() and self.read() else None

    def _should_continue(self, session: FetchSession) -> bool | None:
        if self._must_hurry():
            return True
        if session.notes == self._notes_seen:
            return None
        if not self._takes_slices(session) and not self._any_has_new_data():
            self._notes_seen = session.notes
            return None
        return True

    def _read_and_finish(self) -> FetchResult:
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
        """Read the pending partitions within the limits; return whether the client need not wait any longer."""
        self._start_reading()
        self._read(self._pending())
        return self._is_enough()

    def _read_in_slices(self, session: FetchSession, pending: list[PartitionKey]) -> Steps[bool]:
        self._notes_seen = session.notes
        self._start_reading()
        for keys in batches(pending, PER_SLICE):
            self._read(keys)
            self._collect_errors(session, keys)
            yield None
            if self.session.is_superseded:
                return True
        return self._is_enough()

    def _collect_errors(self, session: FetchSession, keys: Iterable[PartitionKey]) -> None:
        """Add errors to the response at once: of a request with many partitions nothing else is kept for them."""
        failed = [key for key in keys if key in self._partition_data and self._partition_data[key].error_code]
        self._collect(failed)
        for key in failed:
            del self._partition_data[key]
            if session.session_id < 0:
                session.partitions[key] = _RESPONDED

    def _start_reading(self) -> None:
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
                continue  # removed between two slices
            data = PartitionData(
                partition_index=key[2],
                diverging_epoch=_NO_DIVERGENCE,
                current_leader=_NO_LEADER,
                snapshot_id=_NO_SNAPSHOT,
                records=b"",
                aborted_transactions=None,
            )
            try:
                is_quiet = self._read_partition(key, fetched, data)
            except KafkaError as error:
                self._note_error(key, fetched, data, error)
                continue
            self._partition_data[key] = data
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
        """Register the session for changes of the partition; never for a missing one, which would never be removed."""
        topic = self._topic_of(key)
        topic_partition = None if topic is None else TopicPartition(topic, key[2])
        if topic_partition is not None and self.origin.services.metadata.partition(topic_partition) is not None:
            self.replicas.watchers.watch(topic_partition, session, key, fetched)

    def _note_error(self, key: PartitionKey, fetched: FetchedPartition, data: PartitionData, error: KafkaError) -> None:
        """Report an error, unless the client of the session has received the same one."""
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
                self._partition_data.pop(key, None)
                return
        self._is_urgent = True
        self._partition_data[key] = data
        data.error_code = error.code
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        if error.code in _BEFORE_READING:
            data.aborted_transactions = _NO_TRANSACTIONS
        topic = self._topic_of(key)
        if topic is None or self.origin.services.metadata.topic(topic) is None:
            return
        self.replicas.traffic_of(topic).failed_fetch_requests += 1
        is_moved = error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        if is_moved and self.origin.api_version >= _FIRST_VERSION_WITH_NODE_ENDPOINTS:
            data.current_leader = LeaderIdAndEpoch()
            self._name_leader(data.current_leader, self.response.node_endpoints, topic, key[2])

    def _any_has_new_data(self) -> bool:
        """Return whether any partition has records beyond its fetch offset, or cannot be read any more."""
        for key in self._pending():
            fetched = self.session.partitions.get(key)
            if fetched is None:
                continue
            try:
                is_changed = self._has_new_data(self._partition_of(key, fetched), fetched)
            except KafkaError:
                return True
            if is_changed:
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

    def _has_new_data(self, partition: Partition, wanted: FetchedPartition) -> bool:
        raise NotImplementedError

    def _read_partition(self, key: PartitionKey, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Fill in ``data``; return whether the partition has nothing more until something about it changes."""
        raise NotImplementedError

    def _fill_watermarks(self, partition: Partition, data: PartitionData) -> None:
        log = partition.log
        data.high_watermark = log.high_watermark
        data.last_stable_offset = log.last_stable_offset
        data.log_start_offset = log.log_start_offset

    def _remaining_bytes(self, wanted: FetchedPartition) -> int:
        left_bytes = self._size_bytes_max - self._size_bytes
        return wanted.partition_max_bytes if wanted.partition_max_bytes < left_bytes else left_bytes

    def _diverges(self, partition: Partition, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Set the divergence point if the reader's log diverges from ours: it must truncate before it reads on."""
        if wanted.last_fetched_epoch < 0:
            return False
        end = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        if end is None:
            return False
        data.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
        self._is_urgent = True
        return True

    # --- response

    def _finish(self) -> FetchResult:
        return self.respond() if len(self._partition_data) <= STRAIGHT_MAX else self._respond_in_slices()

    def respond(self) -> FetchResponse:
        """Add the data to the response; in an incremental session only what changed."""
        if self.session.is_superseded:
            return self._superseded()
        if self.origin.charge is not None:
            throttled = self._throttle(sum(1 for data in self._partition_data.values() if data.records))
            if throttled is not None:
                return throttled
        self._collect(self._partition_data)
        return self._complete()

    def _respond_in_slices(self) -> Steps[FetchResponse]:
        with_records = 0
        for data_batch in batches(list(self._partition_data.values()), 16 * PER_SLICE):
            with_records += sum(1 for data in data_batch if data.records)
            yield None
        if self.session.is_superseded:
            return self._superseded()
        throttled = self._throttle(with_records)
        if throttled is not None:
            return throttled
        for keys in batches(list(self._partition_data), 2 * PER_SLICE):
            self._collect(keys)
            yield None
            if self.session.is_superseded:
                return self._superseded()
        return self._complete()

    def _superseded(self) -> FetchResponse:
        """Return Kafka's response to a request that a later one in its session has superseded."""
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self.session.session_id)

    def _throttle(self, with_records: int) -> FetchResponse | None:
        """Return the response to send instead when a quota is exceeded; ``with_records``: partitions that have some."""
        return None

    def _collect(self, keys: Iterable[PartitionKey]) -> None:
        """Add the data of these partitions to the response."""
        session, topics = self.session.session, self._topics
        for key in keys:
            data, fetched = self._partition_data[key], self.session.partitions.get(key)
            if fetched is None:
                continue
            is_changed = fetched.note_sent(data)
            if self.session.is_incremental and not is_changed:
                continue
            topic = topics.get(key[:2])
            if topic is None:
                topic = topics[key[:2]] = FetchableTopicResponse(topic=key[0], topic_id=key[1])
                self.response.responses.append(topic)
            topic.partitions.append(data)
            if data.records and session is not None:
                # Served partitions move to the end, so that a small max_bytes starves no partition.
                self.session.partitions[key] = self.session.partitions.pop(key)
                session.pending.pop(key, None)
                session.pending[key] = None

    def _complete(self) -> FetchResponse:
        self.response.session_id = self.session.session_id
        return self.response

"""`ShareFetchRound`: reads and acquires for one ShareFetch, now or when something becomes available.

Partitions are tried from another one each time, so that a small max_bytes starves none. While it waits, up to
`TRIED_MAX` partitions wake it (`ShareWaiters`), each is tried alone; a session with more of them is served by its next
request at the latest.

Source: DelayedShareFetch, ShareFetchUtils.processFetchResponse of Apache Kafka 4.3.1.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log_reader import LogSlice
from ottla.ports import FileSlice
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.share_partitions.acquisition import AcquiredRange, LogBatch
from ottla.share_partitions.share_partition import SharePartition
from ottla.share_partitions.share_partition_state import SharePartitionState
from ottla.share_partitions.share_waiters import ShareWaiters
from ottla.share_state.persister import SharePartitionKey
from ottla.types import Offset, TopicIdPartition
from ottla.wire.records import AbortedTransactions, RecordBatch, iterate_batches

TRIED_MAX: Final = 64
_PER_STEP: Final = 8
_ARCHIVED_PER_STEP: Final = 32
_READ_BYTES_MAX: Final = 1024 * 1024
"""Of one partition: its batches' headers are read in one go."""
_ROUND_BYTES_MAX: Final = 4 * 1024 * 1024
_BATCHES_MAX: Final = 512
"""Of one partition: to parse as many headers takes a millisecond."""


class FetchedShare(NamedTuple):
    """What a partition contributes to the response."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: FileSlice | None = None
    acquired: tuple[AcquiredRange, ...] = ()


class ShareFetchLimits(NamedTuple):
    """Limits of the request."""

    member_id: str
    min_bytes: int
    max_bytes: int
    records_max: int
    batch_size: int
    is_record_limit: bool
    reads_committed: bool


class ShareFetchRound:
    """See the module; ``find`` returns partition and share-partition, or raises KafkaError.

    Attributes:
        fetched: what each partition contributes to the response.
        size_bytes: of the records in ``fetched``.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        waiters: ShareWaiters,
        limits: ShareFetchLimits,
        partitions: list[TopicIdPartition],
        find: Callable[[TopicIdPartition], tuple[Partition, SharePartition]],
        now_ms: Callable[[], int],
    ) -> None:
        self.fetched: dict[TopicIdPartition, FetchedShare] = {}
        self._replicas = replicas
        self._waiters = waiters
        self._limits = limits._replace(max_bytes=min(limits.max_bytes, _ROUND_BYTES_MAX))
        self._partitions = partitions
        self._find = find
        self._now_ms = now_ms
        self._records = 0
        self.size_bytes = 0
        self._readable: dict[TopicIdPartition, int] = {}
        """Bytes of what could be acquired, while that is below min_bytes."""
        self._watched: dict[TopicIdPartition, SharePartitionKey] = {}
        self._woken: dict[TopicIdPartition, None] = {}

    def run(self, deadline_ms: int) -> Steps[None]:
        """Try all partitions in slices, then those that change, until there is something, or until the deadline."""
        if not self._partitions or self._limits.records_max <= 0 or self._limits.max_bytes <= 0:
            return
        wanted: list[TopicIdPartition] = self._partitions
        try:
            while True:
                is_late = self._now_ms() >= deadline_ms
                yield from self._try(wanted, is_late=is_late)
                if self._is_enough() or is_late:
                    return
                yield from self._watch(wanted[:TRIED_MAX])
                yield from self._wait(deadline_ms)
                wanted = list(self._woken)
                self._woken.clear()
        finally:
            for key in self._watched.values():
                self._waiters.remove(key, self)

    def wake(self, key: SharePartitionKey) -> None:
        """Continue, to try a partition that has changed."""
        self._woken[TopicIdPartition(key.topic_id, key.partition)] = None
        self._replicas.fetch_purgatory.check(self)

    def _watch(self, wanted: list[TopicIdPartition]) -> Steps[None]:
        for number, each in enumerate(wanted, 1):
            is_watched = each in self._watched and self._waiters.watches(self._watched[each], self)
            if each not in self.fetched and not is_watched:
                try:
                    partition, share_partition = self._find(each)
                except KafkaError:
                    self._woken[each] = None  # since it has been tried
                else:
                    self._watched[each] = share_partition.key
                    if self._waiters.watch(share_partition.key, partition.topic_partition, self):
                        self._woken[each] = None
            if number % _PER_STEP == 0:
                yield None

    def _wait(self, deadline_ms: int) -> Steps[None]:
        delayed: Delayed[Any] = self._replicas.fetch_purgatory.watch(
            (self,),
            deadline_ms=deadline_ms,
            try_complete=lambda: True if self._woken else None,
            on_deadline=lambda: True,
        )
        try:
            yield delayed
        finally:
            delayed.abandon()  # the connection has ended

    def _is_enough(self) -> bool:
        return self._records > 0 or len(self.fetched) == len(self._partitions)

    def _try(self, wanted: list[TopicIdPartition], *, is_late: bool) -> Steps[None]:
        """Acquire of these, unless that is below min_bytes with those before."""
        needs_size = self._limits.min_bytes > 1 and not is_late
        if needs_size:
            yield from self._measure(wanted)
            if sum(self._readable.values()) < self._limits.min_bytes:
                self._note_tried(wanted)
                return
        for each in dict.fromkeys((*self._readable, *wanted)):
            if each in self.fetched:
                continue
            if not self._is_full():
                yield from self._acquire(each)
            else:
                # As in Kafka, a full response has the errors of all partitions, such as TOPIC_AUTHORIZATION_FAILED.
                try:
                    self._find(each)
                except KafkaError as error:
                    self.fetched[each] = FetchedShare(error.code, error.message)
            yield None
        self._readable.clear()
        self._note_tried(wanted)

    def _note_tried(self, wanted: list[TopicIdPartition]) -> None:
        if self._watched:
            for each in wanted:
                if each in self._watched:
                    self._waiters.note_tried(self._watched[each], self)

    def _is_full(self) -> bool:
        return self._records >= self._limits.records_max or self.size_bytes >= self._limits.max_bytes

    def _measure(self, wanted: list[TopicIdPartition]) -> Steps[None]:
        """Note how much could be read of each."""
        for number, each in enumerate(wanted, 1):
            self._readable.pop(each, None)
            read = None if each in self.fetched else self._read(each)
            if read is not None:
                self._readable[each] = read[2].size_bytes
            if number % _PER_STEP == 0:
                yield None

    def _read(self, each: TopicIdPartition) -> tuple[Partition, SharePartition, LogSlice] | None:
        try:
            partition, share_partition = self._find(each)
            partition.require_leadership(-1)
            state = share_partition.state
            if state in (SharePartitionState.FAILED, SharePartitionState.FENCED):
                result = share_partition.loaded.value
                raise KafkaError(ErrorCode(result.error or ErrorCode.NOT_LEADER_OR_FOLLOWER), result.message)
            if not share_partition.can_acquire():
                return None
            log_slice = partition.read_for_consumer(
                share_partition.next_fetch_offset(),
                size_bytes_max=min(max(self._limits.max_bytes - self.size_bytes, 0), _READ_BYTES_MAX),
                at_least_one=not self.size_bytes,
                read_committed=self._limits.reads_committed,
            )
        except KafkaError as error:
            self.fetched[each] = FetchedShare(error.code, error.message)
            return None
        return None if log_slice.records is None else (partition, share_partition, log_slice)

    def _acquire(self, each: TopicIdPartition) -> Steps[None]:
        read = self._read(each)
        if read is None:
            return
        partition, share_partition, log_slice = read
        limits = self._limits
        assert log_slice.records is not None
        batches = list(islice(iterate_batches(log_slice.records.read()), _BATCHES_MAX))
        acquired = share_partition.acquire(
            limits.member_id,
            [LogBatch(batch.base_offset, batch.last_offset) for batch in batches],
            fetch_offset=share_partition.next_fetch_offset(),
            records_max=limits.records_max - self._records,
            batch_size=limits.batch_size,
            is_record_limit=limits.is_record_limit,
            now_ms=self._now_ms(),
        )
        if log_slice.aborted_transactions and acquired:
            acquired = yield from self._archive_aborted(share_partition, batches, log_slice, acquired)
        if not acquired:
            return
        records = _cut(log_slice.records, batches, acquired[0].first_offset, acquired[-1].last_offset)
        self.fetched[each] = FetchedShare(records=records, acquired=tuple(acquired))
        self._records += sum(last - first + 1 for first, last, _ in acquired)
        self.size_bytes += len(records)
        traffic = self._replicas.traffic_of(partition.topic_partition.topic)
        traffic.share_fetch_requests += 1
        traffic.bytes_out += len(records)

    def _archive_aborted(
        self,
        share_partition: SharePartition,
        batches: list[RecordBatch],
        log_slice: LogSlice,
        acquired: list[AcquiredRange],
    ) -> Steps[list[AcquiredRange]]:
        """Archive records of aborted transactions at once; the member does not see them."""
        kept: list[AcquiredRange] = []
        # The ranges that are left, the first one last.
        left = acquired[::-1]
        aborted = AbortedTransactions(log_slice.aborted_transactions or ())
        for number, batch in enumerate(filter(aborted.includes, batches), 1):
            first, last = batch.base_offset, batch.last_offset
            share_partition.archive_acquired(max(first, acquired[0].first_offset), min(last, acquired[-1].last_offset))
            while left and left[-1].first_offset <= last:
                parts = _without(left.pop(), first, last)
                kept += [part for part in parts if part.last_offset < first]
                left += [part for part in parts if part.last_offset > last]
            if number % _ARCHIVED_PER_STEP == 0:
                yield None
        kept += left[::-1]
        share_partition.window.advance_start()
        return kept


def _without(acquired: AcquiredRange, first: Offset, last: Offset) -> list[AcquiredRange]:
    """Return what is left of a range without the offsets from ``first`` to ``last``."""
    if last < acquired.first_offset or acquired.last_offset < first:
        return [acquired]
    parts = []
    if acquired.first_offset < first:
        parts.append(acquired._replace(last_offset=first - 1))
    if last < acquired.last_offset:
        parts.append(acquired._replace(first_offset=last + 1))
    return parts


def _cut(records: FileSlice, batches: list[RecordBatch], first: Offset, last: Offset) -> FileSlice:
    """Return the part of a slice with the batches of the acquired records."""
    start = end = None
    for batch in batches:
        if start is None and batch.last_offset >= first:
            start = batch.end_position - batch.size_bytes
        if batch.base_offset <= last:
            end = batch.end_position
    assert start is not None
    assert end is not None
    return FileSlice(records.file, records.position + start, end - start)

"""`ShareFetchRound`: reads and acquires for one ShareFetch, now or when something becomes available.

Partitions are tried from another one each time, so that a small max_bytes starves none. While it waits, it tries up to
`TRIED_MAX` partitions at each wake-up; a session with more of them is served by its next request at the latest.

Source: DelayedShareFetch, ShareFetchUtils.processFetchResponse of Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log_reader import LogSlice
from ottla.ports import FileSlice
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.share_partitions.aborted_batches import aborted_ranges
from ottla.share_partitions.acquisition import AcquiredRange, LogBatch
from ottla.share_partitions.share_partition import SharePartition, SharePartitionState
from ottla.share_partitions.share_session_cache import SharedTopicPartition
from ottla.types import Offset
from ottla.wire.records import RecordBatch, iterate_batches

TRIED_MAX: Final = 64
_PER_STEP: Final = 8
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
    """See the module; ``find`` returns partition and share-partition, or raises KafkaError."""

    def __init__(
        self,
        replicas: ReplicaManager,
        limits: ShareFetchLimits,
        partitions: list[SharedTopicPartition],
        find: Callable[[SharedTopicPartition], tuple[Partition, SharePartition]],
        now_ms: Callable[[], int],
    ) -> None:
        self.fetched: dict[SharedTopicPartition, FetchedShare] = {}
        self._replicas = replicas
        self._limits = limits._replace(max_bytes=min(limits.max_bytes, _ROUND_BYTES_MAX))
        self._partitions = partitions
        self._find = find
        self._now_ms = now_ms
        self._records = 0
        self._size_bytes = 0

    def start(self, deadline_ms: int) -> Steps[Delayed[bool]]:
        """Try all partitions in slices; the result is complete when there is something, or at the deadline."""
        if not self._partitions or self._limits.records_max <= 0 or self._limits.max_bytes <= 0:
            return Delayed.of(True)
        is_late = self._now_ms() >= deadline_ms
        for start in range(0, len(self._partitions), _PER_STEP):
            if start:
                yield None
            self._try(self._partitions[start : start + _PER_STEP], is_late=is_late)
        if self._is_enough() or is_late:
            return Delayed.of(True)
        return self._replicas.fetch_purgatory.watch(
            self._keys(),
            deadline_ms=deadline_ms,
            try_complete=self._retry,
            on_deadline=self._try_late,
            is_tried=True,
        )

    def _retry(self) -> bool | None:
        self._try(self._partitions[:TRIED_MAX], is_late=False)
        return True if self._is_enough() else None

    def _try_late(self) -> bool:
        if not self._is_enough():
            self._try(self._partitions[:TRIED_MAX], is_late=True)
        return True

    def _is_enough(self) -> bool:
        return self._records > 0 or len(self.fetched) == len(self._partitions)

    def _keys(self) -> list[Hashable]:
        keys: list[Hashable] = []
        for each in self._partitions[:TRIED_MAX]:
            try:
                partition, share_partition = self._find(each)
            except KafkaError:
                continue
            keys += (partition.topic_partition, share_partition.key)
        return keys

    def _try(self, partitions: list[SharedTopicPartition], *, is_late: bool) -> None:
        """Read and acquire of these, unless that is below min_bytes."""
        limits = self._limits
        found: list[tuple[SharedTopicPartition, Partition, SharePartition, LogSlice]] = []
        size_bytes = 0
        for each in partitions:
            if self._records >= limits.records_max or (self._size_bytes + size_bytes >= limits.max_bytes and found):
                break
            if each in self.fetched:
                continue
            read = self._read(each, limits.max_bytes - self._size_bytes - size_bytes, is_first=not found)
            if read is not None:
                found.append((each, *read))
                size_bytes += read[2].size_bytes
        if size_bytes + self._size_bytes < limits.min_bytes and not is_late:
            return
        for each, partition, share_partition, log_slice in found:
            self._acquire(each, partition, share_partition, log_slice)

    def _read(
        self, each: SharedTopicPartition, size_bytes_max: int, *, is_first: bool
    ) -> tuple[Partition, SharePartition, LogSlice] | None:
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
                size_bytes_max=min(max(size_bytes_max, 0), _READ_BYTES_MAX),
                at_least_one=is_first and not self._size_bytes,
                read_committed=self._limits.reads_committed,
            )
        except KafkaError as error:
            self.fetched[each] = FetchedShare(error.code, error.message)
            return None
        return None if log_slice.records is None else (partition, share_partition, log_slice)

    def _acquire(
        self,
        each: SharedTopicPartition,
        partition: Partition,
        share_partition: SharePartition,
        log_slice: LogSlice,
    ) -> None:
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
            acquired = self._archive_aborted(share_partition, batches, log_slice, acquired)
        if not acquired:
            return
        records = _cut(log_slice.records, batches, acquired[0].first_offset, acquired[-1].last_offset)
        self.fetched[each] = FetchedShare(records=records, acquired=tuple(acquired))
        self._records += sum(last - first + 1 for first, last, _ in acquired)
        self._size_bytes += len(records)
        traffic = self._replicas.traffic_of(partition.topic_partition.topic)
        traffic.fetch_requests += 1
        traffic.bytes_out += len(records)

    def _archive_aborted(
        self,
        share_partition: SharePartition,
        batches: list[RecordBatch],
        log_slice: LogSlice,
        acquired: list[AcquiredRange],
    ) -> list[AcquiredRange]:
        """Archive records of aborted transactions at once; the member does not see them."""
        kept = acquired
        for first, last in aborted_ranges(batches, log_slice.aborted_transactions or ()):
            share_partition.archive_acquired(max(first, acquired[0].first_offset), min(last, acquired[-1].last_offset))
            kept = [part for each in kept for part in _without(each, first, last)]
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

"""`LogCleaner`: selects the filthiest compacted log, has it cleaned off the loop, and replaces its segments on it.

Every log.cleaner.backoff.ms all compacted logs are measured, a few per tick; after a cleaning, at once. The filthiest
one above its min.cleanable.dirty.ratio is cleaned, or one with records older than max.compaction.lag.ms. As many are
cleaned at a time as log.cleaner.threads allows, each as a task of `ports.BackgroundTasks`, slice by slice.

A cleaning is given up if its log was truncated, deleted, is being moved to another log directory, or is configured
differently meanwhile. It cannot do harm then: until its segments are replaced, which is one step on the loop, the log
does not depend on it.

Source: LogCleaner and LogCleanerManager of Kafka.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.errors import CorruptRecordError, ShortageError, StorageError
from ottla.log.cleaner.batch_filter import LastRecord, Retention
from ottla.log.cleaner.cleaned_segment import remove_cleaned_files
from ottla.log.cleaner.cleaning import CleanedGroup, Cleaning, CleaningPlan, CleaningResult
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.dirty_log import DirtyLog, measure
from ottla.log.cleaner.offset_map import slots_for
from ottla.log.cleaner.segment_groups import SourceSegment
from ottla.log.cleaner.throttle import Throttle
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.ports import BackgroundTasks, Clock, Disk, Task
from ottla.types import Offset, TopicPartition

logger = logging.getLogger(__name__)

LOGS_PER_SLICE = 16
NEVER_MS = (1 << 62) - 1


@dataclass(slots=True, eq=False)
class _Job:
    """One cleaning that is under way.

    ``segments`` are the log's own by base offset, as far as they have not been replaced yet; only for the loop.
    """

    dirty: DirtyLog
    plan: CleaningPlan
    task: Task[int | CleanedGroup | CleaningResult]
    segments: dict[Offset, Segment]
    truncation_count: int
    started_ms: int
    resume_ms: int | None = None
    """When the throttled work continues; None while a slice of it is under way."""


class CleanerSample(NamedTuple):
    """The state of the cleaner, for its metrics; without a cleaner all are 0.

    Attributes:
        uncleanable: partitions and their cleanable bytes, by log directory.
        dirty_percent_max: of the filthiest log when the logs were last measured.
        since_last_run_ms: since the logs were last measured.
        map_utilization_percent, recopy_percent, clean_time_seconds: of the last cleaning.
        compaction_delay_seconds_max: by how much the worst log exceeds max.compaction.lag.ms.
    """

    uncleanable: Mapping[str, tuple[int, int]]
    dirty_percent_max: int = 0
    since_last_run_ms: int = 0
    map_utilization_percent: int = 0
    recopy_percent: int = 0
    clean_time_seconds: int = 0
    compaction_delay_seconds_max: int = 0


class LogCleaner:
    """See the module.

    Args of the constructor:
        logs: the node's online logs; changes while work is under way.
        may_clean: whether a log's cleaning may start now; else it is measured again after the next backoff.
        is_being_moved: whether a log is being copied to another log directory: it must not be cleaned meanwhile.
        on_cleaned: called with a log whose `first_dirty_offset` has changed, to write its checkpoint.
        wake: called with a monotonic time at which `run_slice` must be called; it may be called by a completion.

    Attributes:
        config: as given last.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        background: BackgroundTasks,
        logs: Mapping[TopicPartition, PartitionLog],
        config: CleanerConfig,
        may_clean: Callable[[PartitionLog], bool],
        is_being_moved: Callable[[PartitionLog], bool],
        on_cleaned: Callable[[PartitionLog], None],
        wake: Callable[[int], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._background = background
        self._logs = logs
        self.config = config
        self._may_clean = may_clean
        self._is_being_moved = is_being_moved
        self._on_cleaned = on_cleaned
        self._wake = wake
        self._throttle = Throttle()
        self._jobs: dict[TopicPartition, _Job] = {}
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}
        self._unmeasured: deque[PartitionLog] = deque()
        self._filthiest: DirtyLog | None = None
        self._is_measuring = False
        self._dirty_ratio_max = self._dirty_ratio_max_so_far = 0.0
        self._delay_ms_max = self._delay_ms_max_so_far = 0
        self._last_run_ms = self.due_ms = clock.monotonic_ms()
        self._last_result = CleaningResult()
        self._last_clean_ms = 0

    def use_config(self, config: CleanerConfig) -> None:
        """Apply changed settings: to running cleanings the limit of bytes per second, to later ones all."""
        self.config = config
        self.due_ms = self._clock.monotonic_ms()
        self._wake(self.due_ms)

    # --- scheduling

    def next_ms(self, now_ms: int) -> int:
        """Return the monotonic time of the next `run_slice`."""
        if self._is_measuring:
            return now_ms
        waits_ms = [job.resume_ms for job in self._jobs.values() if job.resume_ms is not None]
        if self._has_free_thread:
            waits_ms.append(self.due_ms)
        return min(waits_ms, default=NEVER_MS)

    @property
    def _has_free_thread(self) -> bool:
        return self.config.is_enabled and len(self._jobs) < self.config.threads

    def run_slice(self, now_ms: int) -> None:
        for job in list(self._jobs.values()):
            if job.resume_ms is not None and job.resume_ms <= now_ms:
                self._advance(job)
        if not self._has_free_thread:
            self._is_measuring = False
            return
        if not self._is_measuring and now_ms >= self.due_ms:
            self._begin_measuring(now_ms)
        if self._is_measuring:
            self._measure_some(now_ms)

    def _begin_measuring(self, now_ms: int) -> None:
        self._is_measuring = True
        self._last_run_ms = now_ms
        self._filthiest = None
        self._dirty_ratio_max_so_far, self._delay_ms_max_so_far = 0.0, 0
        self._uncleanable = {
            partition: log for partition, log in self._uncleanable.items() if self._logs.get(partition) is log
        }
        self._unmeasured = deque(
            log
            for partition, log in self._logs.items()
            if log.config.is_compacted and partition not in self._jobs and partition not in self._uncleanable
        )

    def _measure_some(self, now_ms: int) -> None:
        for _ in range(min(len(self._unmeasured), LOGS_PER_SLICE)):
            log = self._unmeasured.popleft()
            if self._logs.get(log.topic_partition) is log and self._may_clean(log):
                self._measure(log)
        if self._unmeasured:
            return
        self._is_measuring = False
        self._dirty_ratio_max, self._delay_ms_max = self._dirty_ratio_max_so_far, self._delay_ms_max_so_far
        found, self._filthiest = self._filthiest, None
        if found is None or self._logs.get(found.log.topic_partition) is not found.log:
            self.due_ms = now_ms + self.config.backoff_ms
        else:
            self._start(found)

    def _measure(self, log: PartitionLog) -> None:
        try:
            dirty = measure(log, self._clock.wall_ms())
        except ShortageError as error:
            logger.warning("%s is measured for compaction at the next interval: %s", log.directory, error)
            return
        except StorageError as error:
            log.end_with(error)
            return
        except CorruptRecordError as error:
            self._mark_uncleanable(log, error)
            return
        self._dirty_ratio_max_so_far = max(self._dirty_ratio_max_so_far, dirty.dirty_ratio)
        self._delay_ms_max_so_far = max(self._delay_ms_max_so_far, dirty.compaction_delay_ms)
        if dirty.must_be_cleaned and (self._filthiest is None or dirty.dirty_ratio > self._filthiest.dirty_ratio):
            self._filthiest = dirty

    # --- one cleaning

    def _start(self, dirty: DirtyLog) -> None:
        plan = self._plan(dirty)
        log = dirty.log
        job = _Job(
            dirty,
            plan,
            self._background.start_task(partial(Cleaning, self._disk, plan)),
            {segment.base_offset: segment for segment in dirty.segments},
            log.truncation_count,
            self._clock.monotonic_ms(),
        )
        self._jobs[log.topic_partition] = job
        self._advance(job)

    def _plan(self, dirty: DirtyLog) -> CleaningPlan:
        log, config = dirty.log, self.config
        last_records = {
            entry.producer_id: LastRecord(entry.last_data_offset, entry.producer_epoch)
            for entry in log.active_producers()
        }
        ends = [segment.base_offset for segment in dirty.segments[1:]] + [dirty.uncleanable_offset]
        return CleaningPlan(
            directory=log.directory,
            config=log.config,
            sources=tuple(map(_source_segment, dirty.segments, ends)),
            transaction_indexes=tuple(
                (segment.transaction_index.file.path, segment.base_offset)
                for segment in log.segments()
                if segment.transaction_index.exists
            ),
            first_dirty_offset=dirty.first_dirty_offset,
            keep=Retention(
                last_records, dirty.uncleanable_offset, self._clock.wall_ms(), log.config.delete_retention_ms
            ),
            slots=slots_for(
                config.map_buffer_bytes, config.load_factor, dirty.uncleanable_offset - dirty.first_dirty_offset
            ),
            load_factor=config.load_factor,
            buffer_size_bytes=config.buffer_size_bytes,
        )

    def _advance(self, job: _Job) -> None:
        """Run the next slice of ``job`` off the loop, unless its log has changed."""
        job.resume_ms = None
        reason = self._changed(job)
        if reason is not None:
            self._give_up(job, reason)
            return
        job.task.advance(lambda outcome: self._on_advanced(job, outcome))

    def _changed(self, job: _Job) -> str | None:
        """Return why ``job`` must not continue; None if it may."""
        log = job.dirty.log
        if not self.config.is_enabled:
            return "the log cleaner was turned off"
        if self._logs.get(log.topic_partition) is not log or log.directory != job.plan.directory:
            return "the log was deleted or moved"
        if self._is_being_moved(log):
            return "the log is being moved to another log directory"
        if log.truncation_count != job.truncation_count:
            return "the log was truncated"
        if _settings(log.config) != _settings(job.plan.config):
            return "the topic's configuration was changed"
        return None

    def _on_advanced(self, job: _Job, outcome: int | CleanedGroup | CleaningResult | Exception) -> None:
        if isinstance(outcome, Exception):
            self._on_failed(job, outcome)
        elif isinstance(outcome, CleaningResult):
            self._finish(job, outcome)
        elif isinstance(outcome, CleanedGroup):
            self._replace(job, outcome)
        else:
            now_ms = self._clock.monotonic_ms()
            resume_ms = self._throttle.use(outcome, self.config.io_bytes_per_second_max, now_ms)
            if resume_ms > now_ms:
                job.resume_ms = resume_ms
                self._wake(resume_ms)
            else:
                self._advance(job)

    def _replace(self, job: _Job, group: CleanedGroup) -> None:
        """Replace the group's segments, if the log still has them."""
        reason = self._changed(job)
        replaced = [job.segments[source.base_offset] for source in group.sources]
        present = {id(segment) for segment in job.dirty.log.segments()}
        if reason is None and any(id(segment) not in present for segment in replaced):
            reason = "segments were deleted by retention"
        if reason is not None:
            self._give_up(job, reason)
            return
        try:
            job.dirty.log.replace_segments(group.cleaned, replaced)
        except StorageError as error:
            self._end(job)
            logger.error("%s: compaction failed: %s", job.plan.directory, error)
            return
        for source in group.sources:
            del job.segments[source.base_offset]
        self._advance(job)

    def _finish(self, job: _Job, result: CleaningResult) -> None:
        reason = self._changed(job)
        if reason is not None:
            self._give_up(job, reason)
            return
        log = job.dirty.log
        log.first_dirty_offset = result.end_offset
        self._last_result = result
        self._last_clean_ms = self._clock.monotonic_ms() - job.started_ms
        logger.info(
            "cleaned log %s (dirty section = [%d, %d)): %d bytes are left of %d, %d ms, %d%% of the offset map used",
            log.topic_partition,
            job.dirty.first_dirty_offset,
            result.end_offset,
            result.written_bytes,
            result.read_bytes,
            self._last_clean_ms,
            round(result.map_utilization * 100),
        )
        self._end(job)
        self._on_cleaned(log)

    def _on_failed(self, job: _Job, error: Exception) -> None:
        log = job.dirty.log
        reason = self._changed(job)
        is_shortage = isinstance(error, ShortageError | MemoryError) or type(error) is RuntimeError
        if reason is not None or is_shortage:
            self._give_up(job, reason or repr(error), retries_at_once=not is_shortage)
        elif isinstance(error, StorageError) and self._has_all_segments(job):
            self._end(job)
            log.end_with(error)
        elif isinstance(error, StorageError):
            self._give_up(job, "segments were deleted by retention")
        else:
            self._mark_uncleanable(log, error)
            self._give_up(job, "the partition is uncleanable")

    def _has_all_segments(self, job: _Job) -> bool:
        present = {id(segment) for segment in job.dirty.log.segments()}
        return all(id(segment) in present for segment in job.segments.values())

    def _mark_uncleanable(self, log: PartitionLog, error: Exception) -> None:
        self._uncleanable[log.topic_partition] = log
        logger.error(
            "Marking %s as uncleanable: compaction of %s stops until the node restarts: %s",
            log.topic_partition,
            log.directory,
            error,
            exc_info=None if isinstance(error, CorruptRecordError) else error,
        )

    def _give_up(self, job: _Job, reason: str, *, retries_at_once: bool = True) -> None:
        """Remove the unfinished files of ``job``, then end it."""
        logger.info("compaction of %s is given up: %s", job.dirty.log.topic_partition, reason)

        def removed(outcome: Exception | None) -> None:
            if outcome is not None:
                logger.warning("%s: the next compaction removes the files of this one: %s", job.plan.directory, outcome)
            self._end(job, retries_at_once=retries_at_once)

        job.task.close()
        self._background.run(partial(remove_cleaned_files, self._disk, job.plan.directory), removed)

    def _end(self, job: _Job, *, retries_at_once: bool = True) -> None:
        now_ms = self._clock.monotonic_ms()
        job.task.close()
        del self._jobs[job.dirty.log.topic_partition]
        self.due_ms = now_ms if retries_at_once else now_ms + self.config.backoff_ms
        self._wake(self.due_ms)

    # --- metrics

    def sample(self, directory_paths: Iterable[str]) -> CleanerSample:
        uncleanable = {path: (0, 0) for path in directory_paths}
        for log in self._uncleanable.values():
            path = log.parent_directory
            if path in uncleanable and self._logs.get(log.topic_partition) is log:
                count, size_bytes = uncleanable[path]
                uncleanable[path] = (count + 1, size_bytes + _dirty_bytes(log))
        result = self._last_result
        return CleanerSample(
            uncleanable,
            int(100 * self._dirty_ratio_max),
            self._clock.monotonic_ms() - self._last_run_ms,
            int(100 * result.map_utilization),
            100 * result.written_bytes // result.read_bytes if result.read_bytes else 0,
            self._last_clean_ms // 1000,
            self._delay_ms_max // 1000,
        )


def _source_segment(segment: Segment, end_offset: Offset) -> SourceSegment:
    index_paths = (segment.offset_index.file.path, segment.time_index.file.path)
    return SourceSegment(segment.base_offset, end_offset, segment.size_bytes, segment.path, index_paths)


def _settings(config: LogConfig) -> tuple[object, ...]:
    """Return the settings that a cleaning depends on."""
    return config.is_compacted, config.delete_retention_ms, config.segment_bytes, config.segment_index_bytes


def _dirty_bytes(log: PartitionLog) -> int:
    """Return the bytes from the first dirty offset on, without the active segment."""
    segments = log.segments()
    ends = [segment.base_offset for segment in segments[1:]]
    return sum(
        segment.size_bytes
        for segment, end_offset in zip(segments, ends, strict=False)
        if end_offset > log.first_dirty_offset
    )

"""The metrics of partition logs, log directories and the log cleaner."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.log.cleaner.log_cleaner import CleanerSample
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.metrics.registry import MetricRow, Rows, by_label, gauge
from ottla.types import Offset


class LogSample(NamedTuple):
    """One partition's log on this node."""

    topic: str
    partition: int
    size_bytes: int
    log_start_offset: Offset
    log_end_offset: Offset
    segment_count: int


class LogDirectorySample(NamedTuple):
    """The log directories of this node, by path."""

    paths: tuple[str, ...]
    offline: tuple[str, ...]


def sample_log(log: PartitionLog) -> LogSample:
    topic, partition = log.topic_partition
    return LogSample(topic, partition, log.size_bytes, log.log_start_offset, log.log_end_offset, len(log.segments()))


def _of_each_log(name: str, help_text: str, value: Callable[[LogSample], int]) -> MetricRow[Sequence[LogSample]]:
    return MetricRow(
        f"kafka_log_log_{name}",
        "gauge",
        help_text,
        ("topic", "partition"),
        lambda logs: (((log.topic, str(log.partition)), value(log)) for log in logs),
    )


LOG_ROWS: Final[Rows[Sequence[LogSample]]] = (
    _of_each_log("size", "Bytes of the partition's log.", lambda log: log.size_bytes),
    _of_each_log("logstartoffset", "First offset of the partition's log.", lambda log: log.log_start_offset),
    _of_each_log("logendoffset", "Offset that the next record will get.", lambda log: log.log_end_offset),
    _of_each_log("numlogsegments", "Segments of the partition's log.", lambda log: log.segment_count),
)


def sample_cleaner(logs: LogManager) -> CleanerSample:
    paths = [*logs.directory_ids(), *logs.offline_directories()]
    cleaner = logs.maintenance.cleaner
    return CleanerSample(dict.fromkeys(paths, (0, 0))) if cleaner is None else cleaner.sample(paths)


def _of_cleaner(name: str, help_text: str, value: Callable[[CleanerSample], int]) -> MetricRow[CleanerSample]:
    return gauge(f"kafka_log_logcleaner_{name}", help_text, value)


CLEANER_ROWS: Final[Rows[CleanerSample]] = (
    by_label(
        "gauge",
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Compacted partitions with a corrupt batch: their compaction has stopped.",
        "logDirectory",
        lambda cleaner: {path: count for path, (count, _) in cleaner.uncleanable.items()},
    ),
    by_label(
        "gauge",
        "kafka_log_logcleanermanager_uncleanable_bytes",
        "Bytes of these partitions that were not compacted.",
        "logDirectory",
        lambda cleaner: {path: size_bytes for path, (_, size_bytes) in cleaner.uncleanable.items()},
    ),
    gauge(
        "kafka_log_logcleanermanager_max_dirty_percent",
        "Dirty share of the filthiest log when the logs were last measured.",
        lambda cleaner: cleaner.dirty_percent_max,
    ),
    gauge(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        "Milliseconds since the logs were last measured.",
        lambda cleaner: cleaner.since_last_run_ms,
    ),
    _of_cleaner(
        "max_buffer_utilization_percent",
        "Used share of the offset map in the last compaction.",
        lambda cleaner: cleaner.map_utilization_percent,
    ),
    _of_cleaner(
        "cleaner_recopy_percent",
        "Bytes that the last compaction kept, in percent of those that it read.",
        lambda cleaner: cleaner.recopy_percent,
    ),
    _of_cleaner("max_clean_time_secs", "Duration of the last compaction.", lambda cleaner: cleaner.clean_time_seconds),
    _of_cleaner(
        "max_compaction_delay_secs",
        "By how much records exceed max.compaction.lag.ms.",
        lambda cleaner: cleaner.compaction_delay_seconds_max,
    ),
)

DIRECTORY_ROWS: Final[Rows[LogDirectorySample]] = (
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed.",
        lambda directories: len(directories.offline),
    ),
    by_label(
        "gauge",
        "kafka_log_logmanager_logdirectoryoffline",
        "Whether a log directory has failed.",
        "logDirectory",
        lambda directories: dict.fromkeys(directories.paths, 0) | dict.fromkeys(directories.offline, 1),
    ),
)

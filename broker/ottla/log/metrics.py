"""The metrics of partition logs and log directories."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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

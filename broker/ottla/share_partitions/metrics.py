"""The metrics of the share-partitions that this broker leads, and of the share sessions of their members.

Source: ShareGroupMetrics, SharePartitionMetrics and ShareSessionCache of Apache Kafka 4.3, with the names of the JMX
exporter. Kafka has records in flight by group as well: clients choose these names, so the page has only the topic.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla.metrics.registry import Rows, by_label, gauge
from ottla.purgatory.steps import batches
from ottla.share_partitions.manager import SharePartitionManager
from ottla.wire.acknowledge_type import AcknowledgeType

_PARTITIONS_PER_SLICE: Final = 1_000
_PARTITIONS: Final = "kafka_server_sharepartitionmetrics"
_SESSIONS: Final = "kafka_server_sharesessioncache"
_COUNTED_TYPES: Final = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
"""Where there is a gap, there is no record."""


@dataclass(slots=True, kw_only=True)
class ShareSample:
    """Counts of acknowledged records by acknowledge type, of sessions, and of what is in flight by topic."""

    acknowledged: Counter[int]
    sessions: int
    session_partitions: int
    share_partitions: Counter[str] = field(default_factory=Counter)
    records_in_flight: Counter[str] = field(default_factory=Counter)
    batches_in_flight: Counter[str] = field(default_factory=Counter)


def sample_share(manager: SharePartitionManager) -> ShareSample:
    """Return the counters; `add_share_partitions` adds what is in flight."""
    sessions = manager.sessions
    return ShareSample(
        acknowledged=manager.acknowledged.copy(), sessions=len(sessions), session_partitions=sessions.partition_count
    )


def add_share_partitions(manager: SharePartitionManager, sample: ShareSample) -> Iterator[None]:
    """Add what the share-partitions have in flight, in slices."""
    for part in batches(list(manager), _PARTITIONS_PER_SLICE):
        for share_partition, partition in part:
            topic, window = partition.topic_partition.topic, share_partition.window
            sample.share_partitions[topic] += 1
            sample.records_in_flight[topic] += window.in_flight_count
            sample.batches_in_flight[topic] += len(window)
        yield


ROWS: Final[Rows[ShareSample]] = (
    by_label(
        "counter",
        "kafka_server_sharegroupmetrics_recordacknowledgements_total",
        "Records that members of share groups acknowledged, by acknowledge type.",
        "ackType",
        lambda it: {each.name.capitalize(): it.acknowledged[each] for each in _COUNTED_TYPES},
    ),
    by_label(
        "gauge",
        "ottla_share_partitions",
        "Partitions of the topic as share groups read them: one for each group.",
        "topic",
        lambda it: it.share_partitions,
    ),
    by_label(
        "gauge",
        f"{_PARTITIONS}_inflightmessagecount",
        "Records of the topic between the start and the end of what share groups are reading.",
        "topic",
        lambda it: it.records_in_flight,
    ),
    by_label(
        "gauge",
        f"{_PARTITIONS}_inflightbatchcount",
        "Batches of those records, of which each has states and delivery counts of its own.",
        "topic",
        lambda it: it.batches_in_flight,
    ),
    gauge(f"{_SESSIONS}_sharesessionscount", "Open share sessions.", lambda it: it.sessions),
    gauge(f"{_SESSIONS}_sharepartitionscount", "Partitions of all share sessions.", lambda it: it.session_partitions),
)

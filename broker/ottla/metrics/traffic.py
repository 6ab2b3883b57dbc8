"""Counters of the traffic of topics on one node, as plain integers: the loop counts, the metrics page reads."""

from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple

from ottla.metrics.registry import MetricRow, Rows, Samples


@dataclass(slots=True)
class TopicTraffic:
    """Counters of one topic's partitions on this node; they only grow.

    Those whose name ends with ``requests`` count partitions in requests. Bytes are those of record batches,
    ``messages_in`` the records in them; ``timed_out_records`` those that a member of a share group did not acknowledge
    in time.
    """

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    share_fetch_requests: int = 0
    share_acknowledgement_requests: int = 0
    failed_share_acknowledgement_requests: int = 0
    timed_out_records: int = 0

    def add(self, other: "TopicTraffic") -> None:
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NAMES = tuple(field.name for field in fields(TopicTraffic))


class Traffic:
    """Every topic's counters, created on first use. Counts of a deleted topic stay in the total."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicTraffic] = {}
        self._deleted = TopicTraffic()

    def for_topic(self, topic: str) -> TopicTraffic:
        counters = self.by_topic.get(topic)
        if counters is None:
            counters = self.by_topic[topic] = TopicTraffic()
        return counters

    def drop_topic(self, topic: str) -> None:
        """Drop the counters of a deleted topic; no error when it has none."""
        counters = self.by_topic.pop(topic, None)
        if counters is not None:
            self._deleted.add(counters)

    def total(self) -> TopicTraffic:
        """Return a new sum over all topics, including deleted ones."""
        total = TopicTraffic()
        for counters in (self._deleted, *self.by_topic.values()):
            total.add(counters)
        return total


class TrafficSample(NamedTuple):
    """A copy of the counters: of each topic, and in total."""

    by_topic: dict[str, TopicTraffic]
    total: TopicTraffic


def sample_traffic(traffic: Traffic) -> TrafficSample:
    return TrafficSample({topic: replace(each) for topic, each in traffic.by_topic.items()}, traffic.total())


def _row(
    name: str, attribute: str, help_text: str, prefix: str = "kafka_server_brokertopicmetrics"
) -> MetricRow[TrafficSample]:
    """Return a counter with a sample for all topics, without a label, and one for each topic, as Kafka has them."""

    def samples(traffic: TrafficSample) -> Samples:
        yield (None,), getattr(traffic.total, attribute)
        for topic, counters in sorted(traffic.by_topic.items()):
            yield (topic,), getattr(counters, attribute)

    return MetricRow(f"{prefix}_{name}_total", "counter", help_text, ("topic",), samples)


ROWS: Final[Rows[TrafficSample]] = (
    _row("messagesin", "messages_in", "Records that producers sent."),
    _row("bytesin", "bytes_in", "Bytes of the batches that producers sent."),
    _row("bytesout", "bytes_out", "Bytes of the batches that consumers and followers read."),
    _row("totalproducerequests", "produce_requests", "Partitions in produce requests."),
    _row("totalfetchrequests", "fetch_requests", "Partitions in fetch requests that were given records."),
    _row("failedproducerequests", "failed_produce_requests", "Partitions in produce requests that failed."),
    _row("failedfetchrequests", "failed_fetch_requests", "Partitions in fetch requests that failed."),
    _row(
        "totalsharefetchrequests",
        "share_fetch_requests",
        "Partitions in fetch requests of share groups that were given records.",
    ),
    _row(
        "totalshareacknowledgementrequests",
        "share_acknowledgement_requests",
        "Partitions in requests that acknowledge records of share groups.",
    ),
    _row(
        "failedshareacknowledgementrequests",
        "failed_share_acknowledgement_requests",
        "Partitions in requests that acknowledge records of share groups, of which none was accepted.",
    ),
    _row(
        "acquisitionlocktimeout",
        "timed_out_records",
        "Records of share groups that were not acknowledged before their acquisition lock timed out.",
        "kafka_server_sharepartitionmetrics",
    ),
)

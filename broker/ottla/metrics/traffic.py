"""What went in and out of topics on one node, as plain integers: the loop counts, the metrics page reads."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class TopicTraffic:
    """Counters of one topic's partitions on this node; they only grow.

    ``fetch_requests`` and ``produce_requests`` count partitions in requests, as Kafka does. Bytes are those of record
    batches, ``messages_in`` the records in them.
    """

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0

    def add(self, other: "TopicTraffic") -> None:
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NAMES = tuple(field.name for field in fields(TopicTraffic))


class Traffic:
    """Every topic's counters, made on first use. What a deleted topic has counted stays in the total."""

    def __init__(self) -> None:
        self.by_topic: dict[str, TopicTraffic] = {}
        self._forgotten = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        counters = self.by_topic.get(topic)
        if counters is None:
            counters = self.by_topic[topic] = TopicTraffic()
        return counters

    def forget(self, topic: str) -> None:
        """Drop the counters of a topic that is gone; no error when it has none."""
        counters = self.by_topic.pop(topic, None)
        if counters is not None:
            self._forgotten.add(counters)

    def total(self) -> TopicTraffic:
        """Return a new sum over all topics that there are and were."""
        total = TopicTraffic()
        for counters in (self._forgotten, *self.by_topic.values()):
            total.add(counters)
        return total

"""`ControllerState`: the metadata that decisions are based on.

It is the same immutable image that brokers have, but newer: it includes records that are appended and not committed
yet. When leadership is lost, these are reverted by going back to the committed image.

Source: the timeline data structures of Apache Kafka's controller, which images replace here.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.controller.partition_index import NOWHERE, PartitionIndex
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.cluster import BrokerRegistration
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.loader import BatchReplayer
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, PartitionRegistration, TopicImage, TopicsDelta
from ottla.types import NodeId, Offset, TopicIdPartition, Uuid


class Position(NamedTuple):
    """A state to return to; ``open_transaction`` are the records of an open transaction, None for none."""

    image: MetadataImage = EMPTY_IMAGE
    open_transaction: tuple[MetadataRecord, ...] | None = None


class ControllerState:
    """``image`` is the newest, ``index`` follows it; only `replay` and `reset` change them.

    ``unclean_elections`` counts leaders that were neither in sync nor eligible, ``elr_elections`` those that were
    eligible only, among records replayed since this process started.
    """

    __slots__ = ("_replayer", "elr_elections", "image", "index", "unclean_elections")

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.index = PartitionIndex()
        self.unclean_elections = 0
        self.elr_elections = 0
        self._replayer = BatchReplayer(EMPTY_IMAGE)

    def replay(self, records: Iterable[MetadataRecord], provenance: Provenance) -> None:
        """Apply a batch of records whose last one is ``provenance``.

        Raises:
            ValueError: a record contradicts the image; nothing has changed then.
        """
        before = self.position
        try:
            for record in records:
                self._replayer.replay(record)
        except ValueError:
            self._replayer = BatchReplayer(*before)
            raise
        delta = self._replayer.delta
        self.image = delta.apply(provenance)
        self._index(delta.topics)
        self._replayer.restart(self.image)

    @property
    def position(self) -> Position:
        return Position(self.image, self._replayer.open_transaction)

    def reset(self, position: Position) -> None:
        """Continue from ``position``, whatever the current state."""
        self.image = position.image
        self.index = PartitionIndex()
        for topic, partition, registration in self.partitions():
            self.index.update(TopicIdPartition(topic.topic_id, partition), None, registration)
        self._replayer = BatchReplayer(*position)

    @property
    def in_transaction(self) -> bool:
        """Whether the log so far ends within a transaction of records (KIP-868)."""
        return self._replayer.in_transaction

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Every partition, topic by topic."""
        for topic in self.image.topics.by_id.values():
            for partition, registration in topic.partitions.items():
                yield topic, partition, registration

    def at(self, places: Iterable[TopicIdPartition]) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Yield the partitions that the index names, by topic id and number: the same order on every controller.

        All are those of the state at the first one, also when they are changed in between.
        """
        by_id = self.image.topics.by_id
        numbers: dict[Uuid, list[int]] = {}
        for topic_id, partition in places:
            numbers.setdefault(topic_id, []).append(partition)
        for topic_id in sorted(numbers):
            topic = by_id[topic_id]
            for partition in sorted(numbers[topic_id]):
                yield topic, partition, topic.partitions[partition]

    def broker_with_epoch(self, broker_id: NodeId, broker_epoch: Offset) -> BrokerRegistration:
        """Return the registration of the incarnation that sent the request.

        Raises:
            KafkaError: STALE_BROKER_EPOCH: it is not registered, or another incarnation is.
        """
        broker = self.image.cluster.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    def has_leaderships(self, broker_id: NodeId) -> bool:
        """Whether the broker leads a partition."""
        return bool(self.index.led.get(broker_id, NOWHERE))

    def _index(self, delta: TopicsDelta) -> None:
        for topic_id, topic in delta.deleted_topics.items():
            for partition, before in topic.partitions.items():
                self.index.update(TopicIdPartition(topic_id, partition), before, None)
        for topic_id, changed in delta.changed_topics.items():
            present = delta.image.by_id.get(topic_id)
            for partition, after in changed.partition_changes.items():
                before_change = None if present is None else present.partitions.get(partition)
                self.index.update(TopicIdPartition(topic_id, partition), before_change, after)
                if before_change is not None and after.leader not in (before_change.leader, NO_LEADER):
                    self._count_election(before_change, after.leader)

    def _count_election(self, before: PartitionRegistration, leader: NodeId) -> None:
        if leader in before.elr:
            self.elr_elections += 1
        elif leader not in before.isr:
            self.unclean_elections += 1

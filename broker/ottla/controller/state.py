"""`ControllerState`: the metadata that decisions are made on.

It is the same immutable image that brokers get, but newer: it contains what was appended and is not committed yet.
When leadership is lost, the uncommitted part is forgotten by going back to the committed image.

Source: the timeline data structures of Apache Kafka's controller, which images replace here.
"""

from collections.abc import Iterable, Iterator

from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.loader import BatchReplayer
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import PartitionRegistration, TopicImage
from ottla.types import NodeId, Offset


class ControllerState:
    """``image`` is the newest; only `replay` and `reset` change it. ``next_offset`` follows its last record."""

    __slots__ = ("_replayer", "image")

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self._replayer = BatchReplayer(EMPTY_IMAGE)

    def replay(self, records: Iterable[MetadataRecord], provenance: Provenance) -> None:
        """Apply a batch of records whose last one is ``provenance``.

        Raises:
            ValueError: a record contradicts the image; nothing has changed then.
        """
        try:
            for record in records:
                self._replayer.replay(record)
        except ValueError:
            self._replayer = BatchReplayer(self.image)
            raise
        self.image = self._replayer.delta.apply(provenance)
        self._replayer.restart(self.image)

    def reset(self, image: MetadataImage) -> None:
        """Go on from ``image``, whatever was before."""
        self.image = image
        self._replayer = BatchReplayer(image)

    @property
    def next_offset(self) -> Offset:
        return self.image.provenance.last_contained_offset + 1

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Every partition, topic by topic."""
        for topic in self.image.topics.by_id.values():
            for partition, registration in topic.partitions.items():
                yield topic, partition, registration

    def has_leaderships(self, broker_id: NodeId) -> bool:
        """Whether the broker leads a partition."""
        return any(registration.leader == broker_id for _, _, registration in self.partitions())

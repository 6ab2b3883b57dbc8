"""`MetadataLoader`: from committed records to published images.

It listens to the quorum, applies what is committed, and hands each new image with its delta to the publishers, in
the order that they were added. A transaction of records (KIP-868) is published as one.

Source: MetadataLoader of Apache Kafka.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotReader


class MetadataPublisher(Protocol):
    """Whoever follows the metadata: the cache, the replica manager, the group coordinator, dynamic configuration."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take ``image``; ``delta`` says what changed since ``delta.image``. Must not fail for valid metadata."""


class MetadataLoader:
    """A `RaftListener`. ``image`` is the newest published image."""

    image: MetadataImage

    def __init__(self) -> None:
        raise NotImplementedError

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Hand ``publisher`` every image from now on, starting with the current one when there is any."""
        raise NotImplementedError

    def on_committed(self, batches: Sequence[Batch[MetadataRecord]]) -> None:
        raise NotImplementedError

    def on_snapshot(self, reader: SnapshotReader[MetadataRecord]) -> None:
        raise NotImplementedError

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        raise NotImplementedError

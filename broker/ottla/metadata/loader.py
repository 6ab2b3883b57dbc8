"""`MetadataLoader`: turns committed records into published images.

It listens to the quorum, applies committed records, and passes each new image with its delta to the publishers, in the
order in which they were added. A transaction of records (KIP-868) is published as one image when it ends; an aborted
one is never published.

Source: MetadataLoader and MetadataBatchLoader of Apache Kafka.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, Provenance
from ottla.metadata.records import MetadataRecord
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotReader
from ottla.wire.messages.metadata_log import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord


class MetadataPublisher(Protocol):
    """A follower of the metadata: the cache, the replica manager, the group coordinator, dynamic configuration."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Use ``image``; ``delta`` has the changes since ``delta.image``. Must not fail for valid metadata."""


class BatchReplayer:
    """Applies batches of records to a delta; buffers the records of a transaction that has not ended.

    ``delta`` has the visible changes. The controller and the loader both replay through this. ``open_transaction`` are
    the records of a transaction that was open where the image ends, None for no transaction.
    """

    __slots__ = ("_transaction", "delta")

    def __init__(self, image: MetadataImage, open_transaction: Sequence[MetadataRecord] | None = None) -> None:
        self.delta = MetadataDelta(image)
        self._transaction: list[MetadataRecord] | None = None if open_transaction is None else list(open_transaction)

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def open_transaction(self) -> tuple[MetadataRecord, ...] | None:
        return None if self._transaction is None else tuple(self._transaction)

    def restart(self, image: MetadataImage) -> None:
        """Start the next delta, from ``image``; an open transaction stays open."""
        self.delta = MetadataDelta(image)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record.

        Raises:
            ValueError: the record contradicts the image.
        """
        message = record.message
        if self._transaction is None:
            if isinstance(message, BeginTransactionRecord):
                self._transaction = []
            elif isinstance(message, EndTransactionRecord | AbortTransactionRecord):
                raise ValueError(f"{type(message).__name__} outside a transaction")
            else:
                self.delta.replay(message)
        elif isinstance(message, EndTransactionRecord):
            records, self._transaction = self._transaction, None
            for buffered in records:
                self.delta.replay(buffered.message)
        elif isinstance(message, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(message, BeginTransactionRecord):
            raise ValueError("BeginTransactionRecord within a transaction")
        else:
            self._transaction.append(record)


class MetadataLoader:
    """A `RaftListener`. ``image`` is the newest published image; ``applied_offset`` that of its last record."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self._publishers: list[MetadataPublisher] = []
        self._replayer = BatchReplayer(EMPTY_IMAGE)

    @property
    def applied_offset(self) -> int:
        """Offset of the last record in the published image; -1 before the first."""
        return self.image.provenance.last_contained_offset

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Pass every image to ``publisher`` from now on, starting with the current one if there is one."""
        self._publishers.append(publisher)
        if self.image is not EMPTY_IMAGE:
            publisher.publish(MetadataDelta.of_everything(self.image), self.image)

    def on_committed(self, batches: Sequence[Batch[MetadataRecord]]) -> None:
        """Apply the batches and publish once.

        Raises:
            ValueError: the records contradict the image; no valid controller can have written the log.
        """
        for batch in batches:
            for record in batch.records:
                self._replayer.replay(record)
        if not self._replayer.in_transaction:
            last = batches[-1]
            self._publish(Provenance(last.last_offset, last.epoch, last.append_timestamp_ms))

    def on_snapshot(self, reader: SnapshotReader[MetadataRecord]) -> None:
        """Replace the image by the snapshot's and publish it.

        Raises:
            ValueError: the records contradict each other.
            StorageError: the snapshot cannot be read.
        """
        self._replayer = BatchReplayer(self.image)
        for batch in reader.batches():
            for record in batch.records:
                self._replayer.replay(record)
        self._replayer.delta.finish_snapshot()
        self._publish(Provenance(reader.last_contained_offset, reader.epoch, reader.last_contained_log_time_ms))

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Do nothing: an election changes no metadata."""

    def _publish(self, provenance: Provenance) -> None:
        delta = self._replayer.delta
        self.image = delta.apply(provenance)
        self._replayer.restart(self.image)
        for publisher in self._publishers:
            publisher.publish(delta, self.image)

"""`SnapshotStore`: creates, finishes and loads snapshots of this replica's own state."""

import logging
from typing import Generic, TypeVar

from ottla.errors import StorageError
from ottla.raft.records import RecordSerde
from ottla.raft.replica import Replica
from ottla.raft.snapshot import SnapshotReader, SnapshotWriter
from ottla.types import OffsetAndEpoch

RecordT = TypeVar("RecordT")

logger = logging.getLogger(__name__)


class SnapshotStore(Generic[RecordT]):
    """See the module; usable once ``replica.log`` is open."""

    def __init__(self, replica: Replica, serde: RecordSerde[RecordT]) -> None:
        self._replica = replica
        self._serde = serde

    @property
    def latest(self) -> OffsetAndEpoch | None:
        snapshots = self._replica.log.snapshots
        return snapshots[-1] if snapshots else None

    def load(self) -> SnapshotReader[RecordT] | None:
        """Read the newest snapshot and adopt its voters; None when there is none.

        Raises:
            StorageError: the disk failed, or the snapshot is corrupt.
        """
        snapshot_id = self.latest
        if snapshot_id is None:
            return None
        replica = self._replica
        reader = SnapshotReader.open(replica.disk, replica.log.snapshot_path(snapshot_id), snapshot_id, self._serde)
        replica.voters.load_snapshot(snapshot_id.offset, reader.kraft_version, reader.voters)
        return reader

    def create(self, end: OffsetAndEpoch, *, last_contained_log_time_ms: int) -> SnapshotWriter[RecordT] | None:
        """Start the snapshot of everything below ``end.offset``; return None when there is one already.

        The caller writes the records and completes it with `finish`.

        Raises:
            StorageError: the disk failed.
        """
        latest = self.latest
        if latest is not None and latest.offset >= end.offset:
            return None
        replica = self._replica
        kraft_version = replica.voters.kraft_version_below(end.offset)
        return SnapshotWriter(
            disk=replica.disk,
            clock=replica.clock,
            directory=replica.log.directory,
            snapshot_id=end,
            serde=self._serde,
            last_contained_log_time_ms=last_contained_log_time_ms,
            kraft_version=kraft_version,
            voters=replica.voters.voters_below(end.offset) if kraft_version > 0 else None,
        )

    def finish(self, writer: SnapshotWriter[RecordT]) -> None:
        """Make the snapshot durable, off the loop, and use it from then on."""
        replica = self._replica

        def frozen(error: StorageError | None) -> None:
            if error is not None:
                replica.fail(error)
                return
            logger.info("metadata snapshot %s is done: %d bytes", writer.snapshot_id, writer.size_bytes)
            replica.handle(lambda: replica.log.add_snapshot(writer.snapshot_id))

        def freeze() -> None:
            writer.freeze_later(frozen)

        if replica.log.log.recovery_point < writer.snapshot_id.offset:
            # An observer does not sync what it fetches; but the next start recovers the log from the snapshot on.
            replica.sync(freeze)
        else:
            freeze()

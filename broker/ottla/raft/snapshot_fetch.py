"""`SnapshotFetch`: loads the leader's snapshot, piece by piece, when this replica is too far behind its log.

The pieces go to ``….checkpoint.part``. The whole is synced, checked (CRCs, footer) and renamed, and then the log
restarts at the end of the snapshot. A crash before the rename leaves a part file that the next start removes; one after
it leaves a snapshot ahead of the log, which the next start adopts (`MetadataLog`).

Source: KIP-630; KafkaRaftClient.handleFetchSnapshotResponse of Apache Kafka.
"""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.errors import ErrorCode, StorageError
from ottla.ports import File
from ottla.raft.records import RecordSerde
from ottla.raft.replica import Replica
from ottla.raft.requests import fetch_snapshot_request
from ottla.raft.snapshot import PART_SUFFIX, SUFFIX, SnapshotReader
from ottla.types import OffsetAndEpoch
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponsePartitionSnapshot

RecordT = TypeVar("RecordT")

logger = logging.getLogger(__name__)


class SnapshotFetch(Generic[RecordT]):
    """See the module. ``on_loaded`` is called with the snapshot when it is published and the log starts at its end."""

    def __init__(
        self, replica: Replica, serde: RecordSerde[RecordT], on_loaded: Callable[[SnapshotReader[RecordT]], None]
    ) -> None:
        self._replica = replica
        self._serde = serde
        self._on_loaded = on_loaded
        self._file: File | None = None
        self._snapshot_id = OffsetAndEpoch(0, 0)
        self._position = 0
        self._is_complete = False

    @property
    def is_active(self) -> bool:
        return self._file is not None

    @property
    def is_complete(self) -> bool:
        """Whether all pieces are there, and only the sync is pending."""
        return self._is_complete

    def start(self, snapshot_id: OffsetAndEpoch) -> None:
        """Start to load ``snapshot_id``, which the leader named.

        Raises:
            StorageError: the disk failed, or the leader has lost committed records.
        """
        high_watermark = self._replica.high_watermark or 0
        if snapshot_id.offset < high_watermark:
            raise StorageError(
                f"the leader of the metadata quorum offers the snapshot {snapshot_id}, which ends below the committed "
                f"offset {high_watermark}: it has lost records; do not restart it before its disk has been checked"
            )
        self.abandon()
        logger.info("the metadata log is behind the leader's: loading its snapshot %s", snapshot_id)
        self._snapshot_id = snapshot_id
        self._position = 0
        try:
            self._file = self._replica.disk.open(self._part_path, create=True)
            self._file.truncate(0)
        except OSError as error:
            raise self._failure(error) from error

    def abandon(self) -> None:
        """Remove the pieces loaded so far, if any."""
        if self._file is None:
            return
        file, self._file, self._is_complete = self._file, None, False
        try:
            file.close()
            self._replica.disk.remove(self._part_path)
        except OSError as error:
            raise self._failure(error) from error

    def request(self) -> FetchSnapshotRequest:
        """Return the request for the next piece."""
        replica = self._replica
        return fetch_snapshot_request(
            cluster_id=replica.cluster_id,
            replica=replica.local,
            epoch=replica.quorum.epoch,
            snapshot_id=self._snapshot_id,
            position=self._position,
            size_bytes_max=replica.config.fetch_snapshot_size_bytes_max,
        )

    def append_piece(self, partition: FetchSnapshotResponsePartitionSnapshot) -> bool:
        """Append the next piece; return False, and abandon the snapshot, when the response is not the next piece.

        Raises:
            StorageError: the disk failed.
        """
        file = self._file
        assert file is not None, "nothing is being loaded"
        snapshot_id = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        piece = bytes(partition.unaligned_records or b"")  # type: ignore[arg-type]
        is_next = snapshot_id == self._snapshot_id and partition.position == self._position and bool(piece)
        if partition.error_code or not is_next:
            why = ErrorCode(partition.error_code).name if partition.error_code else "it sent another piece, or none"
            logger.info("the leader of the metadata quorum does not continue snapshot %s: %s", self._snapshot_id, why)
            self.abandon()
            return False
        try:
            self._position += file.pwritev([piece], self._position)
        except OSError as error:
            raise self._failure(error) from error
        if self._position >= partition.size:
            self._is_complete = True
            self._replica.disk.sync_later([file], lambda error: self._on_synced(file, error))
        return True

    def _on_synced(self, file: File, error: OSError | None) -> None:
        if file is not self._file:
            return
        if error is not None:
            self._replica.fail(self._failure(error))
        else:
            self._replica.handle(self._install)

    def _install(self) -> None:
        replica, path = self._replica, self._replica.log.snapshot_path(self._snapshot_id)
        try:
            reader = SnapshotReader.open(replica.disk, self._part_path, self._snapshot_id, self._serde)
        except StorageError as error:
            logger.warning("the snapshot that the leader of the metadata quorum sent cannot be used: %s", error)
            self.abandon()
            return
        assert self._file is not None, "it was just read"
        file, self._file, self._is_complete = self._file, None, False
        try:
            file.close()
            replica.disk.rename(self._part_path, path)
            replica.disk.sync_directory(replica.log.directory)
        except OSError as error:
            raise self._failure(error) from error
        replica.log.start_at_snapshot(self._snapshot_id)
        replica.voters.load_snapshot(self._snapshot_id.offset, reader.kraft_version, reader.voters)
        replica.raise_high_watermark(self._snapshot_id.offset)
        logger.info("the metadata log restarts at snapshot %s: %d bytes", self._snapshot_id, reader.size_bytes)
        self._on_loaded(reader)

    @property
    def _part_path(self) -> str:
        return self._replica.log.snapshot_path(self._snapshot_id).removesuffix(SUFFIX) + PART_SUFFIX

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"cannot load snapshot {self._part_path}: {error}")

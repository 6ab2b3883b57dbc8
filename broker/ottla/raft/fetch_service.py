"""`FetchService`: serves the fetches of other replicas, which both replicate the log and acknowledge its records.

A fetch at an offset acknowledges everything below it. A replica that has diverged receives the divergence point; one
that is before the start of the log receives the id of the snapshot to load; one that has everything waits for new
records, or for the high watermark to pass the one in its request (KIP-1166).

Source: KafkaRaftClient.handleFetchRequest and handleFetchSnapshotRequest of Apache Kafka.
"""

from collections.abc import Callable

from ottla.errors import ErrorCode, StorageError
from ottla.purgatory import Delayed, Purgatory
from ottla.raft.metadata_log import Validity
from ottla.raft.records import ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.requests import (
    FETCH_SIZE_BYTES_MAX,
    fetch_response,
    fetch_snapshot_response,
    fetched_partition,
    fetched_snapshot,
)
from ottla.types import Offset, OffsetAndEpoch
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
)

_WAITING = "waiting"


class FetchService:
    """See the module. ``on_fetch`` is called for every valid fetch with the replica and its fetch offset."""

    def __init__(self, replica: Replica, on_fetch: Callable[[ReplicaKey, Offset], None]) -> None:
        self._replica = replica
        self._on_fetch = on_fetch
        self._waiting: Purgatory[FetchResponse] = Purgatory()

    def check_waiting(self) -> None:
        """Complete waiting fetches for which there are new records, a new high watermark, or no leader any more."""
        self._waiting.check(_WAITING)

    def tick(self, now_ms: int) -> None:
        self._waiting.expire(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._waiting.next_deadline_ms()

    # --- Fetch

    def handle_fetch(self, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
        """Respond at once when there is new data or an error, else when there is, or after max_wait_ms."""
        wanted = self._replica.check_request(request.cluster_id, fetched_partition(request))
        if isinstance(wanted, ErrorCode):
            return FetchResponse(error_code=wanted)
        least = min(request.max_wait_ms, wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch)
        if least < 0 or wanted.last_fetched_epoch > wanted.current_leader_epoch:
            return self._error_response(ErrorCode.INVALID_REQUEST)
        key = ReplicaKey(max(request.replica_id, request.replica_state.replica_id), wanted.replica_directory_id)
        response, is_final = self._build_response(request, wanted, key)
        if is_final or request.max_wait_ms == 0:
            return response
        return self._waiting.watch(
            (_WAITING,),
            deadline_ms=self._replica.now_ms + request.max_wait_ms,
            try_complete=lambda: self._retry(request, wanted, key),
            on_deadline=lambda: self._build_response(request, wanted, key)[0],
        )

    def _retry(self, request: FetchRequest, wanted: FetchPartition, key: ReplicaKey) -> FetchResponse | None:
        replica = self._replica
        has_records = replica.log.end_offset > wanted.fetch_offset
        leads = replica.error_for_leader(wanted.current_leader_epoch) is None
        if leads and not has_records and self._high_watermark <= wanted.high_watermark:
            return None
        return self._build_response(request, wanted, key)[0]

    def _build_response(
        self, request: FetchRequest, wanted: FetchPartition, key: ReplicaKey
    ) -> tuple[FetchResponse, bool]:
        """Return the response as of now, and whether it has anything new for the fetching replica."""
        replica = self._replica
        error = replica.error_for_leader(wanted.current_leader_epoch)
        if error is not None:
            return self._error_response(error), True
        partition = PartitionData(partition_index=0, records=b"")
        validity, at = replica.log.validate(wanted.fetch_offset, wanted.last_fetched_epoch)
        if validity is Validity.DIVERGING:
            partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset = at.epoch, at.offset
        elif validity is Validity.SNAPSHOT:
            partition.snapshot_id.epoch, partition.snapshot_id.end_offset = at.epoch, at.offset
        else:
            # Not the partition's own limit: Kafka's replicas send 0 there.
            size_bytes_max = min(request.max_bytes, FETCH_SIZE_BYTES_MAX)
            partition.records = replica.log.read(wanted.fetch_offset, size_bytes_max=max(size_bytes_max, 0))
            self._on_fetch(key, wanted.fetch_offset)
        partition.high_watermark = self._high_watermark
        partition.log_start_offset = replica.log.log.log_start_offset
        has_changed = partition.high_watermark > wanted.high_watermark
        is_final = validity is not Validity.VALID or bool(partition.records) or has_changed
        return fetch_response(partition, replica.known()), is_final

    def _error_response(self, error: ErrorCode) -> FetchResponse:
        partition = PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=-1,
            log_start_offset=self._replica.log.log.log_start_offset,
            records=b"",
        )
        return fetch_response(partition, self._replica.known())

    @property
    def _high_watermark(self) -> Offset:
        leader = self._replica.quorum.leader
        return -1 if leader is None or leader.high_watermark is None else leader.high_watermark

    # --- FetchSnapshot

    def handle_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Return the piece of the snapshot that starts at the requested position."""
        wanted = self._replica.check_request(request.cluster_id, fetched_snapshot(request))
        if isinstance(wanted, ErrorCode):
            return FetchSnapshotResponse(error_code=wanted)
        snapshot = FetchSnapshotResponsePartitionSnapshot(
            index=0,
            snapshot_id=FetchSnapshotResponseSnapshotId(
                end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch
            ),
            unaligned_records=b"",
        )
        snapshot.error_code = self._fill(snapshot, wanted, request.max_bytes) or 0
        leader = self._replica.quorum.leader
        if not snapshot.error_code and leader is not None:
            key = ReplicaKey(request.replica_id, wanted.replica_directory_id)
            leader.note_alive(key, self._replica.now_ms)
        return fetch_snapshot_response(snapshot, self._replica.known())

    def _fill(
        self,
        snapshot: FetchSnapshotResponsePartitionSnapshot,
        wanted: FetchSnapshotRequestPartitionSnapshot,
        size_bytes_max: int,
    ) -> ErrorCode | None:
        replica = self._replica
        error = replica.error_for_leader(wanted.current_leader_epoch)
        if error is not None:
            return error
        snapshot_id = OffsetAndEpoch(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
        if snapshot_id not in replica.log.snapshots or snapshot_id.offset == 0:
            return ErrorCode.SNAPSHOT_NOT_FOUND
        path = replica.log.snapshot_path(snapshot_id)
        try:
            file = replica.disk.open(path, read_only=True)
            try:
                snapshot.size = file.size_bytes()
                if not 0 <= wanted.position < snapshot.size:
                    return ErrorCode.POSITION_OUT_OF_RANGE
                snapshot.position = wanted.position
                piece = min(max(size_bytes_max, 0), FETCH_SIZE_BYTES_MAX)
                snapshot.unaligned_records = file.pread(piece, wanted.position)
            finally:
                file.close()
        except OSError as error:
            raise StorageError(f"cannot read snapshot {path}: {error}") from error
        return None

"""`FetchService`: answers the fetches of other replicas, which is how they get the log and how they vote it committed.

A fetch at an offset says that its sender has everything below. One that has diverged gets the place where; one that is
before the start of the log gets the snapshot to load; one that has everything waits for more, or for the high watermark
to pass what it knows (KIP-1166).

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

_NEWS = "news"


class FetchService:
    """See the module. ``on_fetch`` is told of every valid fetch: whose, and at which offset."""

    def __init__(self, replica: Replica, on_fetch: Callable[[ReplicaKey, Offset], None]) -> None:
        self._replica = replica
        self._on_fetch = on_fetch
        self._waiting: Purgatory[FetchResponse] = Purgatory()

    def on_news(self) -> None:
        """Answer the fetches for which there is something now: records, a high watermark, or no leader any more."""
        self._waiting.check(_NEWS)

    def tick(self, now_ms: int) -> None:
        self._waiting.expire(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._waiting.next_deadline_ms()

    # --- Fetch

    def handle_fetch(self, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
        """Answer at once where there is anything to say, else when there is or after max_wait_ms."""
        wanted = self._replica.checked(request.cluster_id, fetched_partition(request))
        if isinstance(wanted, ErrorCode):
            return FetchResponse(error_code=wanted)
        least = min(request.max_wait_ms, wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch)
        if least < 0 or wanted.last_fetched_epoch > wanted.current_leader_epoch:
            return self._refuse(ErrorCode.INVALID_REQUEST)
        key = ReplicaKey(max(request.replica_id, request.replica_state.replica_id), wanted.replica_directory_id)
        response, is_final = self._answer(request, wanted, key)
        if is_final or request.max_wait_ms == 0:
            return response
        return self._waiting.watch(
            (_NEWS,),
            deadline_ms=self._replica.now_ms + request.max_wait_ms,
            try_complete=lambda: self._retry(request, wanted, key),
            on_deadline=lambda: self._answer(request, wanted, key)[0],
        )

    def _retry(self, request: FetchRequest, wanted: FetchPartition, key: ReplicaKey) -> FetchResponse | None:
        replica = self._replica
        has_records = replica.log.end_offset > wanted.fetch_offset
        leads = replica.error_for_leader(wanted.current_leader_epoch) is None
        if leads and not has_records and self._high_watermark <= wanted.high_watermark:
            return None
        return self._answer(request, wanted, key)[0]

    def _answer(self, request: FetchRequest, wanted: FetchPartition, key: ReplicaKey) -> tuple[FetchResponse, bool]:
        """Return the answer as of now, and whether it says anything that its reader does not know."""
        replica = self._replica
        error = replica.error_for_leader(wanted.current_leader_epoch)
        if error is not None:
            return self._refuse(error), True
        answer = PartitionData(partition_index=0, records=b"")
        validity, at = replica.log.validate(wanted.fetch_offset, wanted.last_fetched_epoch)
        if validity is Validity.DIVERGING:
            answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset = at.epoch, at.offset
        elif validity is Validity.SNAPSHOT:
            answer.snapshot_id.epoch, answer.snapshot_id.end_offset = at.epoch, at.offset
        else:
            # Not the partition's own limit: Kafka's replicas leave that at 0.
            size_bytes_max = min(request.max_bytes, FETCH_SIZE_BYTES_MAX)
            answer.records = replica.log.read(wanted.fetch_offset, size_bytes_max=max(size_bytes_max, 0))
            self._on_fetch(key, wanted.fetch_offset)
        answer.high_watermark = self._high_watermark
        answer.log_start_offset = replica.log.log.log_start_offset
        is_news = answer.high_watermark > wanted.high_watermark
        is_final = validity is not Validity.VALID or bool(answer.records) or is_news
        return fetch_response(answer, replica.known()), is_final

    def _refuse(self, error: ErrorCode) -> FetchResponse:
        refusal = PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=-1,
            log_start_offset=self._replica.log.log.log_start_offset,
            records=b"",
        )
        return fetch_response(refusal, self._replica.known())

    @property
    def _high_watermark(self) -> Offset:
        leader = self._replica.quorum.leader
        return -1 if leader is None or leader.high_watermark is None else leader.high_watermark

    # --- FetchSnapshot

    def handle_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Return the piece of the snapshot that starts where the request says."""
        wanted = self._replica.checked(request.cluster_id, fetched_snapshot(request))
        if isinstance(wanted, ErrorCode):
            return FetchSnapshotResponse(error_code=wanted)
        answer = FetchSnapshotResponsePartitionSnapshot(
            index=0,
            snapshot_id=FetchSnapshotResponseSnapshotId(
                end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch
            ),
            unaligned_records=b"",
        )
        answer.error_code = self._fill(answer, wanted, request.max_bytes) or 0
        leader = self._replica.quorum.leader
        if not answer.error_code and leader is not None:
            key = ReplicaKey(request.replica_id, wanted.replica_directory_id)
            leader.note_alive(key, self._replica.now_ms)
        return fetch_snapshot_response(answer, self._replica.known())

    def _fill(
        self,
        answer: FetchSnapshotResponsePartitionSnapshot,
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
                answer.size = file.size_bytes()
                if not 0 <= wanted.position < answer.size:
                    return ErrorCode.POSITION_OUT_OF_RANGE
                answer.position = wanted.position
                piece = min(max(size_bytes_max, 0), FETCH_SIZE_BYTES_MAX)
                answer.unaligned_records = file.pread(piece, wanted.position)
            finally:
                file.close()
        except OSError as error:
            raise StorageError(f"cannot read snapshot {path}: {error}") from error
        return None

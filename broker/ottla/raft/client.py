"""`RaftClient`: one replica of the metadata quorum.

It owns the metadata log and its snapshots, keeps the election state on disk, appends what the controller decides
while it leads, moves the high watermark when a majority has it on disk, and tells its listeners.

Source: KIP-595, KIP-630, KIP-853; KafkaRaftClient of Apache Kafka.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ottla.errors import ConfigurationError, CorruptRecordError, ErrorCode, KafkaError, ProtocolError, StorageError
from ottla.peers.channel import PeerChannel
from ottla.ports import Clock, Disk, Random
from ottla.purgatory import Delayed
from ottla.raft.config import RaftConfig
from ottla.raft.control_batch import build_control_batch, read_control_batch
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state import QuorumState
from ottla.raft.quorum_state_file import QuorumStateFile
from ottla.raft.records import Batch, LeaderAndEpoch, RecordSerde, ReplicaKey
from ottla.raft.snapshot import BATCH_SIZE_BYTES_MAX, SnapshotReader, SnapshotWriter, read_batch
from ottla.raft.voter_set import VoterSet
from ottla.types import Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    VotersRecord,
)
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse
from ottla.wire.records import Record, build_batch

__all__ = ["RaftClient", "RaftConfig", "RaftListener"]

RecordT = TypeVar("RecordT")

CLEAN_INTERVAL_MS: Final = 60_000
"""How often snapshots and log are checked against their retention; Kafka's figure, which is not configurable."""

logger = logging.getLogger(__name__)


class RaftListener(Protocol[RecordT]):
    """Whoever follows the log: it sees every committed record once, in order, from a snapshot or from batches."""

    def on_committed(self, batches: Sequence[Batch[RecordT]]) -> None: ...

    def on_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        """Forget everything and load the snapshot."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Learn of a new leader or epoch; for the leader itself, after it has seen every record before its epoch."""


class RaftClient(Generic[RecordT]):
    """See the module.

    Args of the constructor:
        directory: the metadata log directory (metadata.log.dir); the log is ``<directory>/__cluster_metadata-0``.
        directory_id: directory.id of its meta.properties.
        static_voters: controller.quorum.voters; None where the voters come from the log (KIP-853).
        random: for election timeouts.
        channel: the way to the other replicas.
        cluster_id: of meta.properties; requests from another cluster are refused.
        listeners: this node's own controller listeners, as peers are to dial them; empty for a broker.
        listener_name: the first of controller.listener.names: the peers' listener that is dialled.
        bootstrap_servers: controller.quorum.bootstrap.servers: whom to ask while no leader is known.
        is_controller: whether this node may be a voter; a broker only observes.
        on_failure: called once when the disk refuses; the node must stop.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        directory: str,
        node_id: NodeId,
        directory_id: Uuid,
        serde: RecordSerde[RecordT],
        static_voters: VoterSet | None = None,
        random: Random | None = None,
        channel: PeerChannel | None = None,
        cluster_id: str = "",
        listeners: Mapping[str, Endpoint] | None = None,
        listener_name: str = "CONTROLLER",
        bootstrap_servers: Sequence[Endpoint] = (),
        is_controller: bool = True,
        config: RaftConfig | None = None,
        on_failure: Callable[[StorageError], None] | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._local = ReplicaKey(node_id, directory_id)
        self._serde = serde
        self._static_voters = static_voters
        self._config = config or RaftConfig()
        self._random = random
        self._channel = channel
        self._cluster_id = cluster_id
        self._listener_endpoints = dict(listeners or {})
        self._listener_name = listener_name
        self._bootstrap_servers = tuple(bootstrap_servers)
        self._is_controller = is_controller
        self._on_failure = on_failure
        self._listeners: list[RaftListener[RecordT]] = []
        self._failure: StorageError | None = None
        self._uncommitted: deque[Batch[RecordT]] = deque()
        self._next_offset: Offset = 0
        self._told: LeaderAndEpoch | None = None
        self._is_syncing = False
        self._next_clean_ms = 0
        self.committed_size_bytes = 0
        """Bytes of the batches told to the listeners since the newest snapshot that was loaded."""
        self.voters: VoterSet = static_voters or VoterSet({})
        self.kraft_version = 0
        self._voters_in_log = False
        self._log: MetadataLog
        self._quorum: QuorumState

    # --- what it is

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self._quorum.leader_and_epoch

    @property
    def is_leader(self) -> bool:
        return self._quorum.leader is not None

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Where the leader's controller listener is; None while no leader is known."""
        return self._listener_endpoints.get(self._listener_name) if self.is_leader else None

    @property
    def node_id(self) -> NodeId:
        return self._local.node_id

    @property
    def high_watermark(self) -> Offset | None:
        """The first offset that is not committed; None while no leader has committed anything in its epoch."""
        leader = self._quorum.leader
        return None if leader is None else leader.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        return self._log.end_offset

    @property
    def local(self) -> ReplicaKey:
        return self._local

    @property
    def failure(self) -> StorageError | None:
        """What made this replica stop; None while it works."""
        return self._failure

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._log.snapshots[-1] if self._log.snapshots else None

    # --- life

    def register(self, listener: RaftListener[RecordT]) -> None:
        """Tell ``listener`` everything from the start; to be called before `initialize`.

        Listeners are told in order of registration.
        """
        self._listeners.append(listener)

    def initialize(self) -> None:
        """Open and recover the log, load the newest snapshot, and stand for election where this replica is a voter.

        Raises:
            ConfigurationError: the quorum is one that this release cannot be part of.
            StorageError: the disk refused.
        """
        self._log = MetadataLog(
            disk=self._disk,
            clock=self._clock,
            metadata_log_directory=self._directory,
            config=self._config,
            on_storage_error=self.fail,
        )
        snapshot = self._load_snapshot()
        self._load_control_records()
        if len(self.voters.voters) > 1:
            raise ConfigurationError(
                f"the metadata quorum has the voters {self.voters.node_ids}; this release runs a quorum of one: "
                "name only this node in controller.quorum.voters, or format with --standalone"
            )
        self._quorum = QuorumState(
            file=QuorumStateFile(self._disk, self._log.directory),
            local=self._local,
            voters=self.voters,
            kraft_version=self.kraft_version,
        )
        self._quorum.initialize(self._log.latest_epoch)
        if snapshot is not None and snapshot.snapshot_id.offset > 0:
            for listener in self._listeners:
                listener.on_snapshot(snapshot)
        self._next_clean_ms = self._clock.monotonic_ms() + CLEAN_INTERVAL_MS
        if self.voters.is_only_voter(self._local):
            self._become_leader()
        else:
            self._tell_leader()

    def tick(self, now_ms: int) -> None:
        """Do what is due: retention of snapshots and log."""
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + CLEAN_INTERVAL_MS
            try:
                for snapshot_id in self._log.clean(self._clock.wall_ms()):
                    logger.info("removed metadata snapshot %s and the log below the next one", snapshot_id)
            except StorageError as error:
                self.fail(error)
        self._log.log.tick(self._clock.wall_ms())

    def next_deadline_ms(self) -> int | None:
        return self._next_clean_ms

    def close(self) -> None:
        """Stop leading, flush and close the log.

        Raises:
            StorageError: the disk refused.
        """
        if self._quorum.leader is not None:
            self._quorum.to_resigned()
        self._listeners.clear()
        if self._failure is None:
            self._log.close()

    # --- what other replicas and administrators ask

    def handle_vote(self, request: VoteRequest) -> VoteResponse:
        """Grant or refuse a vote or pre-vote (KIP-595, KIP-996)."""
        raise NotImplementedError

    def handle_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        """Learn of a leader from itself."""
        raise NotImplementedError

    def handle_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        """Learn that the leader has resigned."""
        raise NotImplementedError

    def handle_fetch(self, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
        """Answer a fetch of ``__cluster_metadata`` by a voter or observer; waits up to its max_wait_ms for news."""
        raise NotImplementedError

    def handle_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Return a piece of a snapshot."""
        raise NotImplementedError

    def handle_add_voter(self, request: AddRaftVoterRequest) -> Delayed[AddRaftVoterResponse]:
        """Add a voter (KIP-853)."""
        raise NotImplementedError

    def handle_remove_voter(self, request: RemoveRaftVoterRequest) -> Delayed[RemoveRaftVoterResponse]:
        """Remove a voter (KIP-853)."""
        raise NotImplementedError

    def handle_update_voter(self, request: UpdateRaftVoterRequest) -> Delayed[UpdateRaftVoterResponse]:
        """Note a voter's new endpoints or versions (KIP-853)."""
        raise NotImplementedError

    # --- the leader's part

    def resign(self, epoch: LeaderEpoch) -> None:
        """Stop leading ``epoch``; nothing when this replica does not lead it any more."""
        if self._quorum.leader is not None and self._quorum.leader.epoch == epoch:
            self._quorum.to_resigned()
            self._tell_leader()

    def begin_shutdown(self) -> Delayed[None]:
        """Stop leading and see to it that others learn of it; complete when they have, or cannot be told."""
        return Delayed.of(None)

    def append(self, epoch: LeaderEpoch, records: Sequence[RecordT]) -> Offset:
        """Append ``records`` as one atomic batch; return the last one's offset. It is committed later.

        Raises:
            KafkaError: NOT_CONTROLLER when this replica does not lead in ``epoch`` any more; RECORD_LIST_TOO_LARGE
                when the records do not fit one batch of 8 MiB.
            StorageError: the disk refused.
        """
        leader = self._quorum.leader
        if leader is None or leader.epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._local.node_id} does not lead epoch {epoch}")
        assert records, "a batch needs records"
        base_offset = self._log.end_offset
        timestamp_ms = self._clock.wall_ms()
        encode = self._serde.encode
        data = build_batch(
            [Record(base_offset + index, timestamp_ms, None, encode(each)) for index, each in enumerate(records)],
            base_offset=base_offset,
            leader_epoch=epoch,
        )
        if len(data) > BATCH_SIZE_BYTES_MAX:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{len(records)} metadata records take {len(data)} bytes; one change may take {BATCH_SIZE_BYTES_MAX}",
            )
        return self._append(data, epoch, timestamp_ms, tuple(records), len(records))

    def _append(
        self, data: bytes, epoch: LeaderEpoch, timestamp_ms: int, records: tuple[RecordT, ...], record_count: int
    ) -> Offset:
        base_offset = self._log.end_offset
        try:
            last_offset = self._log.append(data, epoch)
        except StorageError as error:
            self.fail(error)
            raise
        assert last_offset == base_offset + record_count - 1, "the log gave other offsets than the batch has"
        self._uncommitted.append(Batch(base_offset, epoch, timestamp_ms, len(data), records, last_offset))
        self._sync()
        return last_offset

    def _become_leader(self) -> None:
        """Be elected by the only vote there is, and open the epoch with its control records."""
        candidate = self._quorum.to_candidate()
        assert candidate.is_elected, "the only voter's own vote is the majority"
        leader = self._quorum.to_leader(self._log.end_offset)
        logger.info("node %d leads the metadata quorum in epoch %d", self._local.node_id, leader.epoch)
        self._log.log.assign_epoch_start_offset(leader.epoch, leader.epoch_start_offset)
        messages: list[Message] = [
            LeaderChangeMessage(
                version=0,
                leader_id=self._local.node_id,
                voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in self.voters.node_ids],
                granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in sorted(leader.granted_by)],
            )
        ]
        if self.kraft_version > 0 and not self._voters_in_log:
            # The first leader copies them from the snapshot that `format` wrote into the log (KIP-853).
            messages.append(KRaftVersionRecord(version=0, kraft_version=self.kraft_version))
            messages.append(self.voters.to_message())
            self._voters_in_log = True
        timestamp_ms = self._clock.wall_ms()
        data = build_control_batch(
            messages, base_offset=self._log.end_offset, epoch=leader.epoch, timestamp_ms=timestamp_ms
        )
        self._append(data, leader.epoch, timestamp_ms, (), len(messages))

    # --- committing

    def _sync(self) -> None:
        """Have everything appended so far synced; what is appended meanwhile shares the next sync."""
        if self._is_syncing:
            return
        self._is_syncing = True
        self._log.log.flush_later(self._on_synced)

    def _on_synced(self, error: StorageError | None) -> None:
        self._is_syncing = False
        if error is not None:
            self.fail(error)
            return
        leader = self._quorum.leader
        if leader is None:
            return
        synced_offset = self._log.log.recovery_point
        if leader.on_synced(self._local.node_id, synced_offset):
            assert leader.high_watermark is not None
            self._log.log.update_high_watermark(leader.high_watermark)
            self._tell_committed(leader.high_watermark)
            self._tell_leader()
        if synced_offset < self._log.end_offset and self._failure is None:
            self._sync()

    def _tell_committed(self, high_watermark: Offset) -> None:
        batches: list[Batch[RecordT]] = []
        first_in_memory = self._uncommitted[0].base_offset if self._uncommitted else high_watermark
        if self._next_offset < first_in_memory:
            batches += self._read_batches(self._next_offset, min(first_in_memory, high_watermark))
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        if not batches:
            return
        self._next_offset = batches[-1].last_offset + 1
        self.committed_size_bytes += sum(batch.size_bytes for batch in batches)
        for listener in self._listeners:
            listener.on_committed(batches)

    def _tell_leader(self) -> None:
        leader = self.leader_and_epoch
        if leader == self._told:
            return
        self._told = leader
        for listener in self._listeners:
            listener.on_leader_change(leader)

    def _read_batches(self, start_offset: Offset, end_offset: Offset) -> list[Batch[RecordT]]:
        try:
            return [read_batch(batch, self._serde) for batch in self._log.batches(start_offset, end_offset)]
        except (CorruptRecordError, ProtocolError) as error:
            raise StorageError(f"the metadata log in {self._log.directory} cannot be read: {error}") from error

    # --- snapshots

    def create_snapshot(
        self, end: OffsetAndEpoch, *, last_contained_log_time_ms: int
    ) -> SnapshotWriter[RecordT] | None:
        """Begin the snapshot of everything below ``end.offset``; None where there is one already.

        The caller writes the records and ends it with `finish_snapshot`.

        Raises:
            StorageError: the disk refused.
        """
        latest = self.latest_snapshot
        if latest is not None and latest.offset >= end.offset:
            return None
        return SnapshotWriter(
            disk=self._disk,
            clock=self._clock,
            directory=self._log.directory,
            snapshot_id=end,
            serde=self._serde,
            last_contained_log_time_ms=last_contained_log_time_ms,
            kraft_version=self.kraft_version,
            voters=self.voters if self.kraft_version > 0 else None,
        )

    def finish_snapshot(self, writer: SnapshotWriter[RecordT]) -> None:
        """Make the snapshot durable, off the loop, and use it from then on."""

        def frozen(error: StorageError | None) -> None:
            if error is not None:
                self.fail(error)
                return
            logger.info("metadata snapshot %s is done: %d bytes", writer.snapshot_id, writer.size_bytes)
            try:
                self._log.add_snapshot(writer.snapshot_id)
            except StorageError as roll_error:
                self.fail(roll_error)

        writer.freeze_later(frozen)

    def _load_snapshot(self) -> SnapshotReader[RecordT] | None:
        snapshot_id = self.latest_snapshot
        if snapshot_id is None:
            return None
        reader = SnapshotReader.open(self._disk, self._log.snapshot_path(snapshot_id), snapshot_id, self._serde)
        self._next_offset = snapshot_id.offset
        if reader.voters is not None and reader.kraft_version > 0:
            self.voters, self.kraft_version = reader.voters, reader.kraft_version
            self._voters_in_log = snapshot_id.offset > 0
        return reader

    def _load_control_records(self) -> None:
        """Find the newest voter set in the log above the snapshot."""
        try:
            for batch in self._log.batches(self._next_offset, self._log.end_offset):
                if not batch.is_control:
                    continue
                for _, message in read_control_batch(batch):
                    if isinstance(message, KRaftVersionRecord):
                        self.kraft_version = message.kraft_version
                    elif isinstance(message, VotersRecord):
                        self.voters = VoterSet.from_message(message)
                        self._voters_in_log = True
        except (CorruptRecordError, ProtocolError) as error:
            raise StorageError(f"the metadata log in {self._log.directory} cannot be read: {error}") from error

    def fail(self, error: StorageError) -> None:
        """Stop for good: a metadata log that failed once is never trusted again."""
        if self._failure is not None:
            return
        self._failure = error
        logger.critical("the metadata log failed, this node cannot go on: %s", error)
        if self._on_failure is not None:
            self._on_failure(error)

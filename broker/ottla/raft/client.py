"""`RaftClient`: one replica of the metadata quorum.

It owns the metadata log and its snapshots, stands for election, votes, appends the controller's records while it leads,
fetches from the leader while it does not, and notifies its listeners of committed records. `StateParts` has the parts
that do this work and picks the one that the state calls for; this module is the entry for the node, the controller and
the requests of other replicas, and notifies the listeners (`CommitFeed`).

Source: KIP-595, KIP-630, KIP-853, KIP-996; KafkaRaftClient of Apache Kafka.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError, ProtocolError, ShortageError, StorageError
from ottla.peers.channel import PeerChannel
from ottla.ports import Clock, Disk, Random
from ottla.purgatory import Delayed
from ottla.raft.candidate import CandidateState
from ottla.raft.commit_feed import CommitFeed, RaftListener
from ottla.raft.config import RaftConfig
from ottla.raft.fetch_service import FetchService
from ottla.raft.leader import LeaderState
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state import EpochState, QuorumState
from ottla.raft.quorum_state_file import QuorumStateFile
from ottla.raft.record_batch import build_record_batch
from ottla.raft.records import RecordSerde, ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.resigned import ResignedState
from ottla.raft.snapshot import SnapshotReader, SnapshotWriter
from ottla.raft.snapshot_fetch import SnapshotFetch
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.state_parts import StateParts
from ottla.raft.status import RaftStatus
from ottla.raft.voter_history import VoterHistory
from ottla.raft.voter_set import VoterSet
from ottla.types import Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, Uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from ottla.wire.messages.vote import VoteRequest, VoteResponse

__all__ = ["RaftClient", "RaftConfig", "RaftListener"]

RecordT = TypeVar("RecordT")
ResultT = TypeVar("ResultT")

CLEAN_INTERVAL_MS: Final = 60_000
"""How often snapshots and log are checked against their retention; Kafka's figure, which is not configurable."""

logger = logging.getLogger(__name__)


class RaftClient(RaftStatus, Generic[RecordT]):
    """See the module.

    Args of the constructor:
        directory: the metadata log directory (metadata.log.dir); the log is ``<directory>/__cluster_metadata-0``.
        directory_id: directory.id of its meta.properties.
        static_voters: controller.quorum.voters; None where the voters come from the log (KIP-853).
        random: for election timeouts.
        channel: connections to the other replicas.
        cluster_id: of meta.properties; requests from another cluster are rejected.
        listeners: the advertised addresses of this node's own controller listeners; empty for a broker.
        listener_name: the first of controller.listener.names: the listener of the peers that this replica connects to.
        bootstrap_servers: controller.quorum.bootstrap.servers: the nodes to query while no leader is known.
        is_controller: whether this node may be a voter; a broker only observes.
        on_failure: called once when the disk fails; the node must stop.
        on_other_cluster: called when most of the quorum reports another cluster id, before this replica has a high
            watermark; without it the mismatch is logged, and the requests are repeated.
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
        random: Random,
        channel: PeerChannel,
        cluster_id: str,
        listeners: Mapping[str, Endpoint],
        listener_name: str,
        bootstrap_servers: Sequence[Endpoint],
        is_controller: bool,
        static_voters: VoterSet | None = None,
        config: RaftConfig | None = None,
        on_failure: Callable[[KafkaError], None] | None = None,
        on_other_cluster: Callable[[], None] | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._serde = serde
        self._random = random
        self._is_controller = is_controller
        self._config = config or RaftConfig()
        self._voters = VoterHistory(static_voters)
        self._feed: CommitFeed[RecordT] = CommitFeed(serde)
        self._loaded: SnapshotReader[RecordT] | None = None
        self._next_clean_ms = 0
        self._due_ms: int | None = None
        """When `tick` is due; None until it is computed again after a change."""
        self._is_initialized = False
        self._is_polling = False
        self._is_woken = False
        self._shutdown: Delayed[None] | None = None
        self._shutdown_deadline_ms = 0
        self._replica = Replica(
            disk=disk,
            clock=clock,
            channel=channel,
            local=ReplicaKey(node_id, directory_id),
            cluster_id=cluster_id,
            config=self._config,
            voters=self._voters,
            listeners=listeners,
            listener_name=listener_name,
            bootstrap_servers=bootstrap_servers,
            wake=self._poll,
            on_transition=self._on_transition,
            keep_appended=self._feed.on_appended,
            on_failure=on_failure,
            on_other_cluster=on_other_cluster,
        )
        self._snapshots = SnapshotStore(self._replica, serde)
        snapshot_fetch = SnapshotFetch(self._replica, serde, on_loaded=self._on_loaded)
        self._parts = StateParts(self._replica, snapshot_fetch, is_controller=is_controller)
        self._fetch_service = FetchService(self._replica, on_fetch=self._parts.leadership.on_fetch)

    # --- lifecycle

    def register(self, listener: RaftListener[RecordT]) -> None:
        """Notify ``listener`` of every committed record from the start; to be called before `initialize`.

        Listeners are notified in order of registration.
        """
        self._feed.register(listener)

    def initialize(self) -> None:
        """Open and recover the log, load the newest snapshot, and restore the election state.

        The only voter of a quorum leads when this returns; any other replica needs time and `tick`.

        Raises:
            StorageError: the disk failed.
        """
        replica = self._replica
        now_ms = replica.now_ms
        replica.log = MetadataLog(
            disk=self._disk,
            clock=self._clock,
            metadata_log_directory=self._directory,
            config=self._config,
            on_storage_error=replica.fail,
        )
        snapshot = self._snapshots.load()
        if snapshot is not None:
            self._feed.next_offset = snapshot.snapshot_id.offset
        self._load_control_records()
        replica.quorum = QuorumState(
            file=QuorumStateFile(self._disk, replica.log.directory),
            local=replica.local,
            voters=self._voters,
            is_controller=self._is_controller,
            listener_name=replica.listener_name,
            random=self._random,
            config=self._config,
        )
        replica.quorum.initialize(replica.log.latest_epoch, now_ms)
        if snapshot is not None and snapshot.snapshot_id.offset > 0:
            self._feed.notify_snapshot(snapshot)
            replica.raise_high_watermark(snapshot.snapshot_id.offset)
        self._next_clean_ms = now_ms + CLEAN_INTERVAL_MS
        self._is_initialized = True
        is_only_voter = replica.quorum.is_voter and len(self.voters.voters) == 1
        if is_only_voter and not isinstance(replica.quorum.state, CandidateState):
            replica.become_prospective()
        self._poll()

    def tick(self, now_ms: int) -> int | None:
        """Run due work; return ``now_ms`` when some was due, else the next deadline."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return due_ms  # events since the last tick were handled as they occurred
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + CLEAN_INTERVAL_MS
            self._clean()
        self._replica.log.log.tick(now_ms)
        self._fetch_service.tick(now_ms)
        self._poll()
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is due; None when nothing ever is."""
        replica = self._replica
        if replica.failure is not None or replica.is_closed:
            return None
        if self._due_ms is None:
            deadlines = [self._next_clean_ms, self._fetch_service.next_deadline_ms(), self._parts.deadline_ms()]
            if self._shutdown is not None:
                deadlines.append(self._shutdown_deadline_ms)
            if self._feed.has_more:
                deadlines.append(replica.now_ms)
            self._due_ms = min(deadline for deadline in deadlines if deadline is not None)
        return self._due_ms

    def begin_shutdown(self) -> Delayed[None]:
        """Stop leading, and complete when another replica leads, or when no other replica can take over.

        Until then this replica keeps voting: its vote may decide the election.
        """
        if self._shutdown is None:
            self._shutdown = Delayed()
            self._shutdown_deadline_ms = self._replica.now_ms + self._config.election_timeout_ms
            if self.is_leader and self.failure is None:
                self._replica.resign("it shuts down")
            self._poll()
        return self._shutdown

    def close(self) -> None:
        """Stop leading, flush and close the log.

        Raises:
            StorageError: the disk failed.
        """
        if self._replica.is_closed:
            return
        self._feed.clear()
        if self.is_leader and self.failure is None:
            self._replica.resign("it shuts down")
        self._replica.is_closed = True
        if self.failure is None:
            self._replica.log.close()

    def fail(self, error: KafkaError) -> None:
        """Stop for good: a metadata log that failed once is never trusted again."""
        self._replica.fail(error)

    def _clean(self) -> None:
        try:
            for snapshot_id in self._replica.log.clean(self._clock.wall_ms()):
                logger.info("removed metadata snapshot %s and the log below the next one", snapshot_id)
        except (StorageError, ShortageError) as error:
            self.fail(error)

    # --- polling

    def _poll(self) -> None:
        """Run the part that the state calls for, then notify the listeners of the result.

        Events that occur meanwhile (a response, a listener that appends) are handled in the next iteration, never in a
        nested call: so listeners receive one notification after the other.
        """
        if self._is_polling or not self._is_initialized:
            self._is_woken = True
            return
        self._is_polling = True
        try:
            self._is_woken = True
            while self._is_woken and self.failure is None and not self._replica.is_closed:
                self._is_woken = False
                state, now_ms = self._replica.quorum.state, self._replica.now_ms
                if self._shutdown is not None:
                    self._poll_shutdown(state, now_ms)
                self._parts.poll(state, now_ms)
                if not self._is_woken:
                    self._fetch_service.check_waiting()
                    self._notify_listeners()
        except (StorageError, ShortageError) as error:
            self.fail(error)
        finally:
            self._is_polling = False
            self._due_ms = None

    def _poll_shutdown(self, state: EpochState, now_ms: int) -> None:
        assert self._shutdown is not None
        if isinstance(state, ResignedState):
            has_left = self._parts.resignation.is_alone
        else:
            has_left = state.leader_id not in (None, self.node_id)
        if has_left or not self._replica.quorum.is_voter or now_ms >= self._shutdown_deadline_ms:
            self._shutdown.complete(None)

    def _on_transition(self, before: EpochState) -> None:
        if isinstance(before, LeaderState):
            self._feed.on_stopped_leading()
        self._parts.on_transition()

    def _on_loaded(self, snapshot: SnapshotReader[RecordT]) -> None:
        self._loaded = snapshot

    def _notify_listeners(self) -> None:
        replica = self._replica
        if self._loaded is not None:
            snapshot, self._loaded = self._loaded, None
            self._feed.notify_snapshot(snapshot)
        if replica.high_watermark is not None:
            self._feed.notify_committed(replica.log, replica.high_watermark)
        leader = replica.quorum.leader
        if leader is None or (leader.high_watermark is not None and not self._feed.has_more):
            self._feed.notify_leader(replica.leader_and_epoch)

    # --- requests of other replicas and administrators

    def handle_vote(self, request: VoteRequest) -> VoteResponse:
        """Grant or reject a vote or pre-vote (KIP-595, KIP-996)."""
        return self._handle(lambda: self._parts.elections.handle_vote(request))

    def handle_begin_quorum_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        """Learn the leader of an epoch from its own announcement."""
        return self._handle(lambda: self._parts.fetching.handle_begin_quorum_epoch(request))

    def handle_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        """Learn that the leader has resigned."""
        return self._handle(lambda: self._parts.resignation.handle_end_quorum_epoch(request))

    def handle_fetch(self, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
        """Serve a fetch of ``__cluster_metadata`` by a voter or observer; wait up to its max_wait_ms for records."""
        return self._handle(lambda: self._fetch_service.handle_fetch(request))

    def handle_fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """Return a piece of a snapshot."""
        return self._handle(lambda: self._fetch_service.handle_fetch_snapshot(request))

    def handle_add_voter(self, request: AddRaftVoterRequest) -> Delayed[AddRaftVoterResponse]:
        """Add a voter (KIP-853)."""
        return self._handle(lambda: self._parts.voter_changes.handle_add(request))

    def handle_remove_voter(self, request: RemoveRaftVoterRequest) -> Delayed[RemoveRaftVoterResponse]:
        """Remove a voter (KIP-853)."""
        return self._handle(lambda: self._parts.voter_changes.handle_remove(request))

    def handle_update_voter(self, request: UpdateRaftVoterRequest) -> Delayed[UpdateRaftVoterResponse]:
        """Update a voter's endpoints or supported versions (KIP-853)."""
        return self._handle(lambda: Delayed.of(self._parts.voter_changes.handle_update(request)))

    def upgrade_kraft_version(self, epoch: LeaderEpoch, version: int, *, validate_only: bool) -> None:
        """Raise kraft.version: from static voters to voters that are in the log (KIP-853).

        Raises:
            KafkaError: NOT_CONTROLLER, this replica does not lead ``epoch``; INVALID_UPDATE_VERSION, the voters do not
                all support it, or there is no such version; REQUEST_TIMED_OUT, another change is under way.
        """
        leader = self._replica.quorum.leader
        if leader is None or leader.epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead epoch {epoch}")
        self._handle(lambda: self._parts.voter_changes.upgrade(version, validate_only=validate_only))

    def _handle(self, handle: Callable[[], ResultT]) -> ResultT:
        """Return the result of ``handle``, after the follow-up work of the request.

        Raises:
            StorageError: the disk failed; this replica has stopped.
        """
        if self.failure is not None:
            raise self.failure
        try:
            result = handle()
        except (StorageError, ShortageError) as error:
            self.fail(error)
            raise
        self._poll()
        return result

    # --- leader

    def resign(self, epoch: LeaderEpoch) -> None:
        """Stop leading ``epoch``; do nothing when this replica does not lead it any more."""
        leader = self._replica.quorum.leader
        if leader is not None and leader.epoch == epoch:
            self._replica.resign("requested by its controller")

    def append(self, epoch: LeaderEpoch, records: Sequence[RecordT]) -> Offset:
        """Append ``records`` as one atomic batch; return the last one's offset. It is committed later.

        Raises:
            KafkaError: NOT_CONTROLLER when this replica does not lead in ``epoch`` any more; RECORD_LIST_TOO_LARGE
                when the records do not fit one batch of 8 MiB.
            StorageError: the disk failed.
        """
        leader = self._replica.quorum.leader
        if leader is None or leader.epoch != epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self.node_id} does not lead epoch {epoch}")
        assert records, "a batch needs records"
        data, batch = build_record_batch(
            records,
            self._serde,
            base_offset=self._replica.log.end_offset,
            epoch=epoch,
            timestamp_ms=self._clock.wall_ms(),
        )
        try:
            self._parts.leadership.append(leader, data, batch)
        except (StorageError, ShortageError) as error:
            self.fail(error)
            raise
        self._poll()
        return batch.last_offset

    # --- snapshots

    def create_snapshot(
        self, end: OffsetAndEpoch, *, last_contained_log_time_ms: int
    ) -> SnapshotWriter[RecordT] | None:
        """Start the snapshot of everything below ``end.offset``; see `SnapshotStore.create`."""
        return self._snapshots.create(end, last_contained_log_time_ms=last_contained_log_time_ms)

    def finish_snapshot(self, writer: SnapshotWriter[RecordT]) -> None:
        """Make the snapshot durable, off the loop, and use it from then on."""
        self._snapshots.finish(writer)

    def _load_control_records(self) -> None:
        """Find the voters in the log above the snapshot."""
        log = self._replica.log
        try:
            self._voters.read(log.batches(self._feed.next_offset, log.end_offset))
        except (CorruptRecordError, ProtocolError) as error:
            raise StorageError(f"the metadata log in {log.directory} cannot be read: {error}") from error

"""`Leadership`: the leader's work: append, sync, commit, announce itself, and resign when no majority fetches.

Source: KafkaRaftClient of Apache Kafka (onBecomeLeader, pollLeader, maybeSendBeginQuorumEpochRequests).
"""

from collections.abc import Sequence
from typing import Any

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.raft.control_batch import build_control_batch
from ottla.raft.leader import LeaderState
from ottla.raft.peer_requests import PeerRequests
from ottla.raft.records import Batch, ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.requests import Learned, begin_quorum_epoch_request, only_partition
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import NodeId, Offset
from ottla.wire.codec import Message
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from ottla.wire.records import parse_batch


class Leadership:
    """See the module."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._requests = PeerRequests(replica)
        self._is_syncing = False
        self._sync_at_ms: int | None = None
        """When gathered records are synced; None while there are none."""

    def on_transition(self) -> None:
        self._sync_at_ms = None
        self._requests.reset()

    def start_epoch(self) -> None:
        """Start the epoch that this replica was elected for with its control records."""
        replica = self._replica
        leader = replica.become_leader()
        replica.log.log.assign_epoch_start_offset(leader.epoch, leader.epoch_start_offset)
        messages: list[Message] = [
            LeaderChangeMessage(
                version=0,
                leader_id=replica.local.node_id,
                voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in leader.voters.node_ids],
                granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in leader.granted_by],
            )
        ]
        if replica.voters.kraft_version > 0 and not replica.voters.is_in_log:
            # The first leader copies them from the snapshot that `format` wrote into the log (KIP-853).
            messages.append(KRaftVersionRecord(version=0, kraft_version=replica.voters.kraft_version))
            messages.append(self._own_voters_updated().to_message())
        elif replica.voters.kraft_version > 0 and self._own_voters_updated() != replica.voters.voters:
            messages.append(self._own_voters_updated().to_message())
        self.append_control(leader, messages)

    def _own_voters_updated(self) -> VoterSet:
        """Return the voters with this leader's current endpoints: there is no other leader to send them to."""
        replica = self._replica
        known = replica.voters.voters.voters.get(replica.local.node_id)
        if known is None or not replica.listeners:
            return replica.voters.voters
        mine = Voter(replica.local.node_id, replica.local.directory_id, replica.listeners)
        return replica.voters.voters.with_voter(mine)

    def poll(self, now_ms: int) -> None:
        leader = self._leader
        if leader.check_quorum_due_ms is not None and now_ms >= leader.check_quorum_due_ms:
            self._replica.resign("no majority of the voters has fetched from it for too long")
            return
        if self._sync_at_ms is not None and now_ms >= self._sync_at_ms:
            self.sync()
        for voter_id in leader.remote_voters():
            if now_ms >= self._announce_at_ms(leader, voter_id) and self._requests.is_ready(voter_id, now_ms):
                self._announce(leader, voter_id, now_ms)

    def deadline_ms(self) -> int | None:
        """Return when `poll` is next due."""
        leader = self._leader
        deadlines = [due_ms for due_ms in (leader.check_quorum_due_ms, self._sync_at_ms) if due_ms is not None]
        for voter_id in leader.remote_voters():
            retry_ms = self._requests.retry_ms(voter_id)
            if retry_ms is not None:
                deadlines.append(max(retry_ms, self._announce_at_ms(leader, voter_id)))
        return min(deadlines, default=None)

    # --- append and commit

    def append(self, leader: LeaderState, data: bytes, batch: Batch[Any]) -> None:
        """Write a batch that carries its offsets and epoch; sync it off the loop.

        Raises:
            StorageError: the disk failed.
        """
        last_offset = self._replica.log.append(data, leader.epoch)
        assert last_offset == batch.last_offset, "the log gave other offsets than the batch has"
        self._replica.keep_appended(batch)
        linger_ms = self._replica.config.append_linger_ms
        if linger_ms == 0:
            self.sync()
        elif self._sync_at_ms is None:
            self._sync_at_ms = self._replica.now_ms + linger_ms

    def append_control(self, leader: LeaderState, messages: Sequence[Message]) -> Offset:
        """Append control records as one batch; its voters take effect at once. Return the last one's offset."""
        replica = self._replica
        base_offset = replica.log.end_offset
        timestamp_ms = replica.clock.wall_ms()
        data = build_control_batch(messages, base_offset=base_offset, epoch=leader.epoch, timestamp_ms=timestamp_ms)
        last_offset = base_offset + len(messages) - 1
        self.append(leader, data, Batch(base_offset, leader.epoch, timestamp_ms, len(data), (), last_offset))
        if replica.voters.read([parse_batch(data)]):
            self.use_voters(replica.voters.voters)
        return last_offset

    def use_voters(self, voters: VoterSet) -> None:
        """Compute the high watermark by other voters from now on."""
        leader = self._leader
        if leader.use_voters(voters, self._replica.now_ms):
            self._commit(leader)

    def on_fetch(self, key: ReplicaKey, fetch_offset: Offset) -> None:
        """Record the log end of a replica from its valid fetch."""
        leader = self._leader
        if leader.on_fetch(key, fetch_offset, self._replica.log.end_offset, self._replica.now_ms):
            self._commit(leader)

    def sync(self) -> None:
        """Start a sync of everything appended so far; later appends share the next sync."""
        self._sync_at_ms = None
        if not self._is_syncing:
            self._is_syncing = True
            self._replica.sync(self._on_synced)

    def _on_synced(self) -> None:
        self._is_syncing = False
        replica = self._replica
        leader = replica.quorum.leader
        if leader is None:
            return
        synced_offset = replica.log.log.recovery_point
        if leader.on_synced(synced_offset):
            self._commit(leader)
        if synced_offset < replica.log.end_offset and self._sync_at_ms is None:
            self.sync()

    def _commit(self, leader: LeaderState) -> None:
        assert leader.high_watermark is not None
        self._replica.raise_high_watermark(leader.high_watermark)

    # --- announcements to the voters

    def _announce_at_ms(self, leader: LeaderState, voter_id: NodeId) -> int:
        """Return when to announce this leader to ``voter_id``: at once, or after half a timeout without a fetch."""
        progress = leader.progress.get(leader.voters.voters[voter_id].key)
        last_fetch_ms = None if progress is None else progress.last_fetch_ms
        if last_fetch_ms is not None:
            return last_fetch_ms + self._replica.config.fetch_timeout_ms // 2
        return 0

    def _announce(self, leader: LeaderState, voter_id: NodeId, now_ms: int) -> None:
        replica = self._replica
        request = begin_quorum_epoch_request(
            cluster_id=replica.cluster_id,
            voter=leader.voters.voters[voter_id].key,
            leader=replica.leader_and_epoch,
            listeners=replica.listeners,
        )
        # A voter is not sent the announcement again before it has been silent for another half of the timeout.
        self._requests.pause(voter_id, now_ms, replica.config.fetch_timeout_ms // 2)
        self._requests.send(
            voter_id, request, BeginQuorumEpochResponse, lambda response: self._on_response(voter_id, response)
        )

    def _on_response(self, voter_id: NodeId, response: BeginQuorumEpochResponse | PeerFailure) -> None:
        if isinstance(response, PeerFailure):
            return
        partition = only_partition(response.topics)
        if response.error_code or partition is None:
            error = ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
            self._replica.log_rejection(error, voter_id, "the announcement of the leader")
            return
        leader = self._leader
        if partition.leader_epoch > leader.epoch:
            self._replica.learn(Learned.of(partition.leader_id, partition.leader_epoch, response.node_endpoints))
        elif partition.error_code:
            self._replica.log_rejection(ErrorCode(partition.error_code), voter_id, "the announcement of the leader")

    @property
    def _leader(self) -> LeaderState:
        leader = self._replica.quorum.leader
        assert leader is not None, "only a leader does this"
        return leader

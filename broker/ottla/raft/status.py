"""`RaftStatus`: the state of this replica and of its quorum, as the node, the controller and the metrics read it."""

from typing import Any

from ottla.errors import KafkaError
from ottla.raft.commit_feed import CommitFeed
from ottla.raft.leader import LeaderState
from ottla.raft.quorum_state import EpochState
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voter_history import VoterHistory
from ottla.raft.voter_set import VoterSet
from ottla.types import Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch


class RaftStatus:
    """The part of `RaftClient` that only reads; valid after `RaftClient.initialize`."""

    _replica: Replica
    _voters: VoterHistory
    _feed: CommitFeed[Any]
    _snapshots: SnapshotStore[Any]

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self._replica.leader_and_epoch

    @property
    def is_leader(self) -> bool:
        return self._replica.quorum.leader is not None

    @property
    def in_contact_until_ms(self) -> int:
        """See `QuorumState.in_contact_until_ms`."""
        return self._replica.quorum.in_contact_until_ms

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Address of the leader's controller listener; None while no leader is known."""
        return self._replica.leader_endpoint

    @property
    def voters(self) -> VoterSet:
        """The newest voter set, whether committed or not."""
        return self._voters.voters

    @property
    def kraft_version(self) -> int:
        return self._voters.kraft_version

    @property
    def node_id(self) -> NodeId:
        return self._replica.local.node_id

    @property
    def state(self) -> EpochState:
        """State of this replica in the current epoch: leader, follower, candidate ..."""
        return self._replica.quorum.state

    @property
    def high_watermark(self) -> Offset | None:
        """The first uncommitted offset; None while it is unknown to this replica, which may be the leader itself."""
        state = self._replica.quorum.state
        return state.high_watermark if isinstance(state, LeaderState) else self._replica.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        return self._replica.log.log.log_end_offset

    @property
    def log_epoch(self) -> LeaderEpoch:
        """The newest epoch that the log, or its newest snapshot, has records of."""
        return self._replica.log.latest_epoch

    @property
    def committed_size_bytes(self) -> int:
        """Bytes of all batches that listeners were notified of."""
        return self._feed.committed_size_bytes

    @property
    def local(self) -> ReplicaKey:
        return self._replica.local

    @property
    def failure(self) -> KafkaError | None:
        """The error that stopped this replica; None while it works."""
        return self._replica.failure

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self._snapshots.latest

"""`Resignation`: a leader that has resigned notifies the voters, and they prepare to stand for election.

The voter with the longest log stands for election at once, the others a little later each, so that they do not split
the vote.

Source: KafkaRaftClient of Apache Kafka (pollResigned, handleEndQuorumEpochRequest, endEpochElectionBackoff); KIP-996.
"""

from collections.abc import Sequence

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.raft.follower import FollowerState
from ottla.raft.peer_requests import PeerRequests
from ottla.raft.records import ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.requests import (
    Learned,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    only_partition,
)
from ottla.raft.resigned import ResignedState
from ottla.types import ZERO_UUID, NodeId
from ottla.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochResponse,
)


class Resignation:
    """See the module."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._requests = PeerRequests(replica)
        self._unreachable_voters: set[NodeId] = set()

    def on_transition(self) -> None:
        self._requests.reset()
        self._unreachable_voters.clear()

    @property
    def is_alone(self) -> bool:
        """Whether no other voter can be reached to take over."""
        others = [voter for voter in self._replica.voters.voters.node_ids if voter != self._replica.local.node_id]
        return all(voter in self._unreachable_voters for voter in others)

    def poll(self, now_ms: int) -> None:
        state = self._state
        if now_ms >= state.election_deadline_ms:
            # No other replica has led this epoch, and this one must not lead it again.
            self._replica.become_unattached(state.epoch + 1, None)
            return
        for voter_id in list(state.unacknowledged):
            if self._replica.quorum.state is state and self._requests.is_ready(voter_id, now_ms):
                self._announce(state, voter_id)

    def deadline_ms(self) -> int:
        state = self._state
        retry_ms = self._requests.next_retry_ms(state.unacknowledged)
        return state.election_deadline_ms if retry_ms is None else min(retry_ms, state.election_deadline_ms)

    def _announce(self, state: ResignedState, voter_id: NodeId) -> None:
        replica = self._replica
        request = end_quorum_epoch_request(
            cluster_id=replica.cluster_id,
            leader_id=state.node_id,
            epoch=state.epoch,
            preferred_successors=state.preferred_successors,
            listeners=replica.listeners,
        )
        self._requests.send(
            voter_id, request, EndQuorumEpochResponse, lambda response: self._on_response(voter_id, response)
        )

    def _on_response(self, voter_id: NodeId, response: EndQuorumEpochResponse | PeerFailure) -> None:
        if response is PeerFailure.CONNECTION_REFUSED:
            self._unreachable_voters.add(voter_id)
        if isinstance(response, PeerFailure):
            return
        self._state.unacknowledged.remove(voter_id)
        partition = only_partition(response.topics)
        if response.error_code or partition is None:
            error = ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
            self._replica.log_rejection(error, voter_id, "the announcement of a resignation")
        elif partition.leader_epoch > self._state.epoch:
            self._replica.learn(Learned.of(partition.leader_id, partition.leader_epoch, response.node_endpoints))

    @property
    def _state(self) -> ResignedState:
        state = self._replica.quorum.state
        assert isinstance(state, ResignedState), f"{state} has not resigned"
        return state

    # --- announcements of another leader's resignation

    def handle_end_quorum_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        """Give up the leader; stand for election after this replica's share of the delay."""
        replica = self._replica
        announced = replica.check_request(request.cluster_id, only_partition(request.topics))
        if isinstance(announced, ErrorCode):
            return EndQuorumEpochResponse(error_code=announced)
        error = replica.learn_from_leader(announced.leader_id, announced.leader_epoch, request.leader_endpoints)
        state = replica.quorum.state
        if error is None and isinstance(state, FollowerState) and state.leader_id == announced.leader_id:
            state.lose_leader(replica.now_ms + self._election_delay_ms(announced))
        return end_quorum_epoch_response(error or 0, replica.known())

    def _election_delay_ms(self, announced: EndQuorumEpochRequestPartitionData) -> int:
        """Return the delay before this replica stands, by its position among the preferred successors."""
        successors: Sequence[ReplicaKey] = [
            ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in announced.preferred_candidates
        ] or [ReplicaKey(each, ZERO_UUID) for each in announced.preferred_successors]
        local = self._replica.local
        longest_ms = self._replica.config.election_backoff_ms_max
        for position, successor in enumerate(successors):
            if successor.node_id == local.node_id and successor.directory_id in (ZERO_UUID, local.directory_id):
                return 0 if position == 0 else min((longest_ms >> (len(successors) - 1)) << (position - 1), longest_ms)
        return self._replica.quorum.random_ms(longest_ms // 4) if not successors else longest_ms

"""`Elections`: stands for election, first by pre-vote, and votes for other candidates.

A replica that loses an election backs off for a random time that doubles with every loss. Connection refused
at a voter's address counts as a rejected vote: waiting for that voter would only delay the next attempt.

A replica requests votes once its whole log is on stable storage. With records that it may still lose it could win a
vote for them, lose them in a crash, and be elected without them by the same vote: a voter grants it again to the same
candidate in the same epoch. JVM Kafka need not wait: it syncs within each append.

Source: KafkaRaftClient of Apache Kafka (handleVoteRequest, handleVoteResponse, pollProspective, pollCandidate).
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure
from ottla.raft.candidate import CandidateState
from ottla.raft.peer_requests import PeerRequests
from ottla.raft.prospective import ProspectiveState
from ottla.raft.quorum_state import EpochState
from ottla.raft.records import ReplicaKey
from ottla.raft.replica import Replica
from ottla.raft.requests import Learned, only_partition, vote_request, vote_response
from ottla.types import NodeId, OffsetAndEpoch
from ottla.wire.messages.vote import VoteRequest, VoteRequestPartitionData, VoteResponse

BACKOFF_BASE_MS: Final = 50

logger = logging.getLogger(__name__)


class Elections:
    """See the module. ``on_elected`` is called when a majority has voted for this replica."""

    def __init__(self, replica: Replica, on_elected: Callable[[], None]) -> None:
        self._replica = replica
        self._on_elected = on_elected
        self._requests = PeerRequests(replica)
        self._losses = 0
        self._is_syncing = False

    # --- candidacy

    def on_transition(self, state: EpochState) -> None:
        self._requests.reset()
        if state.leader_id is not None:
            self._losses = 0

    def poll(self, now_ms: int) -> None:
        """Continue the election in which this replica is a candidate."""
        state = self._replica.quorum.state
        assert isinstance(state, ProspectiveState | CandidateState), f"{state} stands in no election"
        if state.votes.is_won:
            self._win(state)
        elif now_ms >= state.election_deadline_ms:
            self._give_up(state, now_ms)
        elif (isinstance(state, ProspectiveState) or not state.is_backing_off) and self._is_log_synced():
            self._request_votes(state, now_ms)

    def _is_log_synced(self) -> bool:
        """Return whether no record of the log can be lost; otherwise sync it, after which there is another `poll`."""
        log = self._replica.log.log
        if log.recovery_point >= log.log_end_offset:
            return True
        if not self._is_syncing:
            self._is_syncing = True
            self._replica.sync(self._on_synced)
        return False

    def _on_synced(self) -> None:
        self._is_syncing = False

    def deadline_ms(self) -> int:
        state = self._replica.quorum.state
        assert isinstance(state, ProspectiveState | CandidateState), f"{state} stands in no election"
        retry_ms = self._requests.next_retry_ms(state.votes.unrecorded_voters)
        is_waiting = isinstance(state, CandidateState) and state.is_backing_off
        if retry_ms is None or is_waiting or self._is_syncing:
            return state.election_deadline_ms
        return min(state.election_deadline_ms, retry_ms)

    def backoff_ms(self) -> int:
        """Return the backoff after one more lost election."""
        longest_ms = min(BACKOFF_BASE_MS << min(self._losses, 10), self._replica.config.election_backoff_ms_max)
        self._losses += 1
        return longest_ms // 2 + self._replica.quorum.random_ms(longest_ms)

    def _win(self, state: ProspectiveState | CandidateState) -> None:
        if isinstance(state, ProspectiveState):
            self._replica.become_candidate()
        else:
            self._on_elected()

    def _give_up(self, state: ProspectiveState | CandidateState, now_ms: int) -> None:
        if isinstance(state, CandidateState):
            self._replica.become_prospective()
        elif state.leader_id is not None and state.leader_endpoint is not None:
            self._replica.follow(state.epoch, state.leader_id, state.leader_endpoint)
        else:
            deadline_ms = now_ms + self.backoff_ms()
            self._replica.become_unattached(state.epoch, state.leader_id, election_deadline_ms=deadline_ms)

    def _request_votes(self, state: ProspectiveState | CandidateState, now_ms: int) -> None:
        for voter_id in state.votes.unrecorded_voters:
            if self._replica.quorum.state is not state:
                return
            if self._requests.is_ready(voter_id, now_ms):
                self._request_vote(state, voter_id)

    def _request_vote(self, state: ProspectiveState | CandidateState, voter_id: NodeId) -> None:
        replica = self._replica
        request = vote_request(
            cluster_id=replica.cluster_id,
            voter=replica.voters.voters.voters[voter_id].key,
            candidate=replica.local,
            epoch=state.epoch,
            log_end=replica.log.end,
            is_pre_vote=isinstance(state, ProspectiveState),
        )
        self._requests.send(voter_id, request, VoteResponse, lambda response: self._on_response(voter_id, response))

    def _on_response(self, voter_id: NodeId, response: VoteResponse | PeerFailure) -> None:
        if isinstance(response, PeerFailure):
            self._on_failure(voter_id, response)
            return
        partition = only_partition(response.topics)
        if response.error_code or partition is None:
            self._on_error(voter_id, response.error_code or ErrorCode.INVALID_REQUEST)
            return
        learned = Learned.of(partition.leader_id, partition.leader_epoch, response.node_endpoints)
        state = self._replica.quorum.state
        if learned.epoch >= state.epoch:
            self._replica.learn(learned)
        if self._replica.quorum.state is not state:
            return
        if partition.error_code or learned.epoch < state.epoch:
            self._on_error(voter_id, partition.error_code or ErrorCode.INVALID_REQUEST)
        else:
            self._record_vote(voter_id, is_granted=partition.vote_granted)

    def _on_failure(self, voter_id: NodeId, failure: PeerFailure) -> None:
        if failure is PeerFailure.UNSUPPORTED_VERSION and isinstance(self._replica.quorum.state, ProspectiveState):
            # A release without pre-votes: only a real vote can show whether this voter grants it.
            self._record_vote(voter_id, is_granted=True)
        elif failure in (PeerFailure.CONNECTION_REFUSED, PeerFailure.UNSUPPORTED_VERSION):
            self._record_vote(voter_id, is_granted=False)

    def _on_error(self, voter_id: NodeId, error_code: int) -> None:
        self._replica.log_rejection(ErrorCode(error_code), voter_id, "a vote")
        self._record_vote(voter_id, is_granted=False)

    def _record_vote(self, voter_id: NodeId, *, is_granted: bool) -> None:
        state = self._replica.quorum.state
        assert isinstance(state, ProspectiveState | CandidateState), "responses to earlier states are dropped"
        state.votes.record(voter_id, is_granted=is_granted)
        if not state.votes.is_lost:
            return
        now_ms = self._replica.now_ms
        if isinstance(state, ProspectiveState):
            self._give_up(state, now_ms)
        elif not state.is_backing_off:
            state.is_backing_off = True
            state.election_deadline_ms = min(state.election_deadline_ms, now_ms + self.backoff_ms())

    # --- voting

    def handle_vote(self, request: VoteRequest) -> VoteResponse:
        """Grant or reject the vote or pre-vote; a vote is on disk before the response is sent."""
        requested = self._replica.check_request(request.cluster_id, only_partition(request.topics))
        if isinstance(requested, ErrorCode):
            return VoteResponse(error_code=requested)
        error = self._error_in(request, requested)
        is_granted = error is None and self._decide_vote(requested)
        return vote_response(error or 0, self._replica.known(), is_granted=is_granted)

    def _error_in(self, request: VoteRequest, requested: VoteRequestPartitionData) -> ErrorCode | None:
        """Return the error with which the request is rejected; adopt its epoch when it is newer."""
        is_future = requested.last_offset_epoch > requested.replica_epoch
        if not requested.pre_vote and requested.last_offset_epoch == requested.replica_epoch:
            is_future = True
        if is_future or requested.last_offset < 0 or requested.last_offset_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        error = self._replica.error_for_voter(requested.replica_epoch, requested.replica_id)
        if error is not None:
            return error
        if requested.replica_epoch > self._replica.quorum.epoch:
            self._replica.become_unattached(requested.replica_epoch, None)
        if not self._replica.is_meant(request.voter_id, requested.voter_directory_id):
            return ErrorCode.INVALID_VOTER_KEY
        return None

    def _decide_vote(self, requested: VoteRequestPartitionData) -> bool:
        quorum = self._replica.quorum
        candidate = ReplicaKey(requested.replica_id, requested.replica_directory_id)
        theirs = OffsetAndEpoch(requested.last_offset, requested.last_offset_epoch)
        mine = self._replica.log.end
        is_up_to_date = (theirs.epoch, theirs.offset) >= (mine.epoch, mine.offset)
        is_granted = quorum.state.grants_vote(
            candidate, is_log_up_to_date=is_up_to_date, is_pre_vote=requested.pre_vote
        )
        if is_granted and not requested.pre_vote:
            quorum.vote_for(candidate)
            logger.info("voted for node %d in epoch %d of the metadata quorum", candidate.node_id, quorum.epoch)
        if not is_up_to_date:
            # That candidate cannot win while this replica has a vote: stand soon instead of waiting for it to give up.
            quorum.stand_within(self._replica.now_ms, BACKOFF_BASE_MS * 2)
        return is_granted

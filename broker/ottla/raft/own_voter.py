"""`OwnVoter`: a follower's requests to the leader about itself: update its endpoints, or add it as voter (KIP-853).

A voter whose endpoints or versions differ from those in the voter set sends UpdateRaftVoter; with kraft.version 0, once
to every leader, which needs it for the upgrade. A controller that is no voter sends AddRaftVoter when
controller.quorum.auto.join.enable is set; one whose disk was replaced has its former replica removed before.

Source: KafkaRaftClient of Apache Kafka (pollFollowerAsVoter, pollFollowerAsObserver).
"""

import logging

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.raft.follower import FollowerState
from ottla.raft.replica import Replica
from ottla.raft.voter_set import Voter
from ottla.wire.codec import Message
from ottla.wire.messages import add_raft_voter, update_raft_voter
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

logger = logging.getLogger(__name__)


class OwnVoter:
    """See the module. ``is_controller``: whether this node may be a voter at all."""

    def __init__(self, replica: Replica, *, is_controller: bool) -> None:
        self._replica = replica
        self._is_controller = is_controller
        self._next_ms = 0
        self._generation = 0
        self._has_updated_leader = False

    def on_transition(self, now_ms: int) -> None:
        self._generation += 1
        self._next_ms = now_ms + self._replica.config.fetch_timeout_ms
        self._has_updated_leader = False

    def poll(self, state: FollowerState, now_ms: int) -> None:
        """Send the next request about this node, if there is one and it is due."""
        if not self._is_controller or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + self._replica.config.fetch_timeout_ms
        request = self._next_request()
        if request is None:
            return
        generation = self._generation

        def on_response(response: PeerResult) -> None:
            if generation == self._generation:
                self._on_response(response)

        self._replica.send(state.leader_endpoint, request, on_response)

    def deadline_ms(self) -> int | None:
        return self._next_ms if self._is_controller else None

    def _next_request(self) -> Message | None:
        replica = self._replica
        voters, kraft_version = replica.voters.voters, replica.voters.kraft_version
        mine = Voter(replica.local.node_id, replica.local.directory_id, replica.listeners)
        known = voters.voters.get(mine.node_id)
        if replica.quorum.is_voter:
            is_up_to_date = known == mine if kraft_version > 0 else self._has_updated_leader
            return None if is_up_to_date or not mine.listeners else self._update(mine)
        if kraft_version == 0 or not replica.config.auto_join or not mine.listeners:
            return None
        if known is not None:
            return RemoveRaftVoterRequest(
                cluster_id=replica.cluster_id, voter_id=known.node_id, voter_directory_id=known.directory_id
            )
        return AddRaftVoterRequest(
            cluster_id=replica.cluster_id,
            timeout_ms=replica.config.request_timeout_ms,
            voter_id=mine.node_id,
            voter_directory_id=mine.directory_id,
            listeners=[
                add_raft_voter.Listener(name=name, host=host, port=port)
                for name, (host, port) in mine.listeners.items()
            ],
            ack_when_committed=False,
        )

    def _update(self, mine: Voter) -> UpdateRaftVoterRequest:
        first, last = mine.kraft_versions
        return UpdateRaftVoterRequest(
            cluster_id=self._replica.cluster_id,
            current_leader_epoch=self._replica.quorum.epoch,
            voter_id=mine.node_id,
            voter_directory_id=mine.directory_id,
            listeners=[
                update_raft_voter.Listener(name=name, host=host, port=port)
                for name, (host, port) in mine.listeners.items()
            ],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(
                min_supported_version=first, max_supported_version=last
            ),
        )

    def _on_response(self, response: PeerResult) -> None:
        if isinstance(response, PeerFailure):
            return
        assert isinstance(response, UpdateRaftVoterResponse | AddRaftVoterResponse | RemoveRaftVoterResponse)
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            self._has_updated_leader = True
        else:
            leader_id = self._replica.quorum.leader_id
            self._replica.log_rejection(error, leader_id, f"a request of this node about its own voter ({response})")

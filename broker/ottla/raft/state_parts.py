"""`StateParts`: the parts of a `RaftClient`, and which of them its state calls for.

============ ==========================================================================================================
part         responsibility
============ ==========================================================================================================
Elections    requests and grants pre-votes and votes
Leadership   appends, syncs, commits; announces the leader to the voters; resigns when no majority fetches
Fetching     fetches the log, or a snapshot of it, while another replica leads
Resignation  notifies the voters when this replica stops leading
VoterChanges adds, removes and updates voters, on the leader
OwnVoter     requests from the leader the voter change that concerns this replica itself
============ ==========================================================================================================

They share the `Replica`: the log, the voters, the quorum state and its transitions. `FetchService`, which serves the
fetches of other replicas, and `CommitFeed` are not among them: they work in every state.
"""

from typing import Any

from ottla.raft.candidate import CandidateState
from ottla.raft.elections import Elections
from ottla.raft.fetching import Fetching
from ottla.raft.follower import FollowerState
from ottla.raft.leader import LeaderState
from ottla.raft.leadership import Leadership
from ottla.raft.own_voter import OwnVoter
from ottla.raft.prospective import ProspectiveState
from ottla.raft.quorum_state import EpochState
from ottla.raft.replica import Replica
from ottla.raft.resignation import Resignation
from ottla.raft.resigned import ResignedState
from ottla.raft.snapshot_fetch import SnapshotFetch
from ottla.raft.voter_changes import VoterChanges


class StateParts:
    """See the module."""

    def __init__(self, replica: Replica, snapshot_fetch: SnapshotFetch[Any], *, is_controller: bool) -> None:
        self._replica = replica
        self.leadership = Leadership(replica)
        self.elections = Elections(replica, on_elected=self.leadership.start_epoch)
        self.fetching = Fetching(replica, snapshot_fetch)
        self.resignation = Resignation(replica)
        self.voter_changes = VoterChanges(replica, self.leadership)
        self._own_voter = OwnVoter(replica, is_controller=is_controller)

    def poll(self, state: EpochState, now_ms: int) -> None:
        """Run the part that ``state``, the current one before this iteration, calls for."""
        if isinstance(state, (ProspectiveState, CandidateState)):
            self.elections.poll(now_ms)
        elif isinstance(state, LeaderState):
            self.leadership.poll(now_ms)
            if self._replica.quorum.state is state:
                self.voter_changes.poll(now_ms)
        elif isinstance(state, ResignedState):
            self.resignation.poll(now_ms)
        else:
            self.fetching.poll(now_ms)
            if isinstance(state, FollowerState) and self._replica.quorum.state is state:
                self._own_voter.poll(state, now_ms)

    def deadline_ms(self) -> int | None:
        """Return when `poll` is next due in the current state."""
        state = self._replica.quorum.state
        if isinstance(state, (ProspectiveState, CandidateState)):
            return self.elections.deadline_ms()
        if isinstance(state, LeaderState):
            return _earlier(self.leadership.deadline_ms(), self.voter_changes.deadline_ms())
        if isinstance(state, ResignedState):
            return self.resignation.deadline_ms()
        if isinstance(state, FollowerState):
            return _earlier(self.fetching.deadline_ms(), self._own_voter.deadline_ms())
        return self.fetching.deadline_ms()

    def on_transition(self) -> None:
        """Reset the parts after a change of the state."""
        self.elections.on_transition(self._replica.quorum.state)
        self.leadership.on_transition()
        self.fetching.on_transition()
        self.resignation.on_transition()
        self.voter_changes.on_transition()
        self._own_voter.on_transition(self._replica.now_ms)


def _earlier(first: int | None, second: int | None) -> int | None:
    return second if first is None or (second is not None and second < first) else first

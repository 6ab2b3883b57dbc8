"""Follower: this replica knows the epoch's leader and fetches from it.

**Pre-votes that a follower grants.** Kafka's rule: none, once a fetch from the leader has succeeded; so a replica that
is the only one without a connection to the leader does not depose it. The rule by itself makes every election wait for
the fetch timeout (2 s) of a majority. A follower knows more when it finds the connection refused at the leader's
address: a process that listened there has ended. It then counts as one that has not fetched (`lose_leader`): it grants
pre-votes at once, and stands itself after a short random delay. The same holds when the leader itself announces that it
has resigned.

When a leader's process dies, all of its connections break at the same moment. Every follower reconnects at once and
finds the connection refused, one round trip later; from then on each would grant. The first follower whose random delay
is over finds the others ready, or (when it was earlier than their reconnections) is denied, follows again, finds the
connection refused again and sends another pre-vote some tens of milliseconds later. So the quorum is without a leader
for about two round trips, the delay, and two syncs of quorum-state. A follower that alone has lost its path to the
leader, while others fetch, gets no pre-votes: the others have fetched, and deny; its backoff grows, and no epoch is
spent.

Source: FollowerState of Apache Kafka, without `lose_leader`.
"""

from dataclasses import dataclass

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.types import Endpoint, LeaderEpoch, NodeId


@dataclass(slots=True)
class FollowerState:
    """``fetch_deadline_ms`` (monotonic): when a voter gives up the leader."""

    epoch: LeaderEpoch
    leader_id: NodeId
    leader_endpoint: Endpoint
    voted_key: ReplicaKey | None
    fetch_deadline_ms: int
    has_fetched: bool = False

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def on_fetched(self, fetch_deadline_ms: int) -> None:
        """Record a successful fetch from the leader."""
        self.has_fetched = True
        self.fetch_deadline_ms = fetch_deadline_ms

    def lose_leader(self, deadline_ms: int) -> None:
        """Record that the leader is gone: give it up at ``deadline_ms``, and grant pre-votes from now on."""
        self.has_fetched = False
        self.fetch_deadline_ms = min(self.fetch_deadline_ms, deadline_ms)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        del candidate
        return is_pre_vote and is_log_up_to_date and not self.has_fetched

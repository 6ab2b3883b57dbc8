"""Leader: this replica appends for the quorum, and tracks the log end of each replica.

The high watermark is the largest offset that a majority of the voters has on stable storage. It is not known before
it passes the start of the leader's epoch (Raft, section 5.4.2): records of earlier epochs are committed by it, never
counted on their own. It never goes back, also not when the voters change. A voter's fetch at an offset says that
everything below is on its disk; the leader's own offset is that of its last finished sync.

A leader from which no majority of the voters fetches within 1.5 times the fetch timeout resigns: it may be partitioned.

Source: LeaderState of Apache Kafka.
"""

from dataclasses import dataclass, field
from typing import Final

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import VoterSet
from ottla.types import ZERO_UUID, LeaderEpoch, NodeId, Offset

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
"""After this time without a fetch an observer is not described any more."""


@dataclass(slots=True)
class ReplicaProgress:
    """Log end of another replica; times are monotonic, None for "not in this epoch"."""

    end_offset: Offset = -1
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    leader_end_offset: Offset = -1
    """The leader's log end at the last fetch."""

    def on_fetch(self, fetch_offset: Offset, leader_end_offset: Offset, now_ms: int) -> None:
        """Record that the replica has everything below ``fetch_offset``."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and fetch_offset >= self.leader_end_offset:
            # It has everything up to the log end at its previous fetch, so it was caught up then.
            self.last_caught_up_ms = self.last_fetch_ms
        self.end_offset = fetch_offset
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms


@dataclass(slots=True)
class LeaderState:
    """``granted_by`` are the voters that elected it; ``epoch_start_offset`` is that of its leader change record."""

    epoch: LeaderEpoch
    local: ReplicaKey
    voters: VoterSet
    granted_by: tuple[NodeId, ...]
    epoch_start_offset: Offset
    check_quorum_timeout_ms: int = 3_000
    check_quorum_deadline_ms: int = 3_000
    high_watermark: Offset | None = None
    synced_offset: Offset = 0
    progress: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    _fetched: set[NodeId] = field(default_factory=set)

    @property
    def leader_id(self) -> NodeId | None:
        return self.local.node_id

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.local.node_id)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        del candidate, is_log_up_to_date, is_pre_vote
        return False

    # --- progress of the replicas

    def on_synced(self, end_offset: Offset) -> bool:
        """Record that the leader has everything below ``end_offset`` on disk; return whether more is committed."""
        self.synced_offset = max(end_offset, self.synced_offset)
        return self._advance()

    def on_fetch(self, replica: ReplicaKey, fetch_offset: Offset, leader_end_offset: Offset, now_ms: int) -> bool:
        """Record the log end of ``replica`` from its fetch; return whether more is committed."""
        if replica.node_id < 0:
            # A consumer's fetch: it acknowledges nothing for any replica.
            return False
        key = self.voters.key_of(replica)
        self.progress.setdefault(key, ReplicaProgress()).on_fetch(fetch_offset, leader_end_offset, now_ms)
        self.note_alive(replica, now_ms)
        return self._advance()

    def note_alive(self, replica: ReplicaKey, now_ms: int) -> None:
        """Count a voter's fetch, of records or of a snapshot, as evidence that this leader is not partitioned."""
        if not self.voters.is_voter(replica) or replica.node_id == self.local.node_id:
            return
        self._fetched.add(replica.node_id)
        if len(self._fetched) >= self._others_in_majority:
            self._fetched.clear()
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_timeout_ms

    def use_voters(self, voters: VoterSet, now_ms: int) -> bool:
        """Compute the high watermark by another set of voters; return whether more is committed by it."""
        if self._others_in_majority == 0:
            # No other voter was needed until now: those needed from now on get the whole timeout to fetch.
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_timeout_ms
        self.voters = voters
        for voter in voters.voters.values():
            if voter.directory_id != ZERO_UUID:
                # Its fetches as a static voter, without a directory id, stop counting; its next fetch counts again.
                self.progress.pop(ReplicaKey(voter.node_id, ZERO_UUID), None)
        self._fetched &= set(voters.voters)
        return self._advance()

    @property
    def check_quorum_due_ms(self) -> int | None:
        """When this leader resigns unless a majority fetches before; None when it is the majority by itself."""
        return self.check_quorum_deadline_ms if self._others_in_majority > 0 else None

    def remote_voters(self) -> list[NodeId]:
        return [voter for voter in self.voters.node_ids if voter != self.local.node_id]

    def voters_by_offset(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, those with the longest logs first: the preferred successors."""
        others = [voter.key for voter in self.voters.voters.values() if voter.node_id != self.local.node_id]
        return tuple(sorted(others, key=lambda voter: (-self.offset_of(voter), voter.node_id)))

    def offset_of(self, voter: ReplicaKey) -> Offset:
        progress = self.progress.get(voter)
        return -1 if progress is None else progress.end_offset

    def observers(self, now_ms: int) -> list[tuple[ReplicaKey, ReplicaProgress]]:
        """Return the replicas that fetch and are no voters; remove those that have stopped."""
        observers = []
        for key, progress in sorted(self.progress.items()):
            if self.voters.is_voter(key):
                continue
            if progress.last_fetch_ms is None or now_ms - progress.last_fetch_ms >= OBSERVER_SESSION_TIMEOUT_MS:
                del self.progress[key]
            else:
                observers.append((key, progress))
        return observers

    @property
    def _others_in_majority(self) -> int:
        return self.voters.majority - (1 if self.voters.is_voter(self.local) else 0)

    def _advance(self) -> bool:
        offsets = sorted(
            (
                self.synced_offset if voter.node_id == self.local.node_id else self.offset_of(voter.key)
                for voter in self.voters.voters.values()
            ),
            reverse=True,
        )
        candidate = offsets[len(offsets) // 2]
        if candidate <= self.epoch_start_offset or candidate <= (self.high_watermark or 0):
            return False
        self.high_watermark = candidate
        return True

"""Leader: this replica appends for the quorum, and knows how far each replica has what it appended.

The high watermark is the largest offset that a majority of the voters has on stable storage. It is not known before
it passes the start of the leader's epoch (Raft, section 5.4.2): records of earlier epochs are committed by it, never
counted on their own. It never goes back, also not when the voters change. A voter's fetch at an offset says that
everything below is on its disk; the leader's own offset is that of its last finished sync.

A leader from which no majority of the voters fetches within 1.5 times the fetch timeout resigns: it may be cut off.

Source: LeaderState of Apache Kafka.
"""

from dataclasses import dataclass, field
from typing import Final

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import VoterSet
from ottla.types import ZERO_UUID, LeaderEpoch, NodeId, Offset

OBSERVER_SESSION_TIMEOUT_MS: Final = 300_000
"""An observer that has not fetched for so long is not described any more."""


@dataclass(slots=True)
class ReplicaProgress:
    """How far another replica is; times are monotonic, None for "not in this epoch"."""

    end_offset: Offset = -1
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    leader_end_offset: Offset = -1
    """The leader's log end at the last fetch."""

    def on_fetch(self, fetch_offset: Offset, leader_end_offset: Offset, now_ms: int) -> None:
        """Learn that it has everything below ``fetch_offset``."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and fetch_offset >= self.leader_end_offset:
            # It has all that there was when it fetched before, so it was caught up then.
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

    # --- who is how far

    def on_synced(self, end_offset: Offset) -> bool:
        """Learn what the leader itself has on disk, below ``end_offset``; return whether more is committed."""
        self.synced_offset = max(end_offset, self.synced_offset)
        return self._advance()

    def on_fetch(self, replica: ReplicaKey, fetch_offset: Offset, leader_end_offset: Offset, now_ms: int) -> bool:
        """Learn from a fetch how far ``replica`` is; return whether more is committed."""
        if replica.node_id < 0:
            # A consumer's: it says nothing of any replica.
            return False
        key = self.voters.key_of(replica)
        self.progress.setdefault(key, ReplicaProgress()).on_fetch(fetch_offset, leader_end_offset, now_ms)
        self.note_alive(replica, now_ms)
        return self._advance()

    def note_alive(self, replica: ReplicaKey, now_ms: int) -> None:
        """Count a fetch of a voter, of records or of a snapshot, as a sign that this leader is not cut off."""
        if not self.voters.is_voter(replica) or replica.node_id == self.local.node_id:
            return
        self._fetched.add(replica.node_id)
        if len(self._fetched) >= self._others_in_majority:
            self._fetched.clear()
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_timeout_ms

    def use_voters(self, voters: VoterSet, now_ms: int) -> bool:
        """Count by another set of voters from now on; return whether more is committed by it."""
        if self._others_in_majority == 0:
            # It needed nobody until now: whom it needs from now on has the whole time to fetch.
            self.check_quorum_deadline_ms = now_ms + self.check_quorum_timeout_ms
        self.voters = voters
        for voter in voters.voters.values():
            if voter.directory_id != ZERO_UUID:
                # What it fetched as a static voter, known by its id alone, counts again from its next fetch on.
                self.progress.pop(ReplicaKey(voter.node_id, ZERO_UUID), None)
        self._fetched &= set(voters.voters)
        return self._advance()

    @property
    def cut_off_at_ms(self) -> int | None:
        """When this leader is to resign unless a majority fetches before; None where it needs nobody."""
        return self.check_quorum_deadline_ms if self._others_in_majority > 0 else None

    def remote_voters(self) -> list[NodeId]:
        return [voter for voter in self.voters.node_ids if voter != self.local.node_id]

    def voters_by_offset(self) -> tuple[ReplicaKey, ...]:
        """Return the other voters, those with the longest logs first: who should lead next."""
        others = [voter.key for voter in self.voters.voters.values() if voter.node_id != self.local.node_id]
        return tuple(sorted(others, key=lambda voter: (-self.offset_of(voter), voter.node_id)))

    def offset_of(self, voter: ReplicaKey) -> Offset:
        progress = self.progress.get(voter)
        return -1 if progress is None else progress.end_offset

    def observers(self, now_ms: int) -> list[tuple[ReplicaKey, ReplicaProgress]]:
        """Return the replicas that fetch and are no voters; forget those that have stopped."""
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

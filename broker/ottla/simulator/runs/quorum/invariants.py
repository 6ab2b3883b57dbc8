"""Invariants of a metadata quorum, checked after every event under all faults: one small class each.

Source: RaftEventSimulationTest of Apache Kafka.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.raft.candidate import CandidateState
from ottla.raft.leader import LeaderState
from ottla.raft.quorum_state_file import QuorumStateFile
from ottla.types import LeaderEpoch, NodeId, Offset

if TYPE_CHECKING:
    from ottla.simulator.runs.quorum.replica import SimulatedReplica


class InvariantViolation(AssertionError):
    """A violated invariant; the message names it."""


class MonotonicEpoch:
    """A replica's epoch never goes back, restarts included, and the epoch that it acts in is on its disk."""

    def __init__(self) -> None:
        self._epochs: dict[NodeId, LeaderEpoch] = {}
        self.newest_led: LeaderEpoch = 0
        """The newest epoch with a leader."""

    def check(self, replicas: "Iterable[SimulatedReplica]") -> None:
        for replica in replicas:
            epoch = replica.client.leader_and_epoch.epoch
            if replica.client.is_leader:
                self.newest_led = max(self.newest_led, epoch)
            before = self._epochs.get(replica.node_id, 0)
            if epoch < before:
                raise InvariantViolation(f"MonotonicEpoch: node {replica.node_id} went from {before} back to {epoch}")
            if epoch > before:
                self._epochs[replica.node_id] = epoch
                self._require_on_disk(replica, epoch)

    def remove_node(self, node_id: NodeId) -> None:
        """Drop the epoch of a node whose disk was wiped: it starts at 0 again."""
        self._epochs.pop(node_id, None)

    def _require_on_disk(self, replica: "SimulatedReplica", epoch: LeaderEpoch) -> None:
        written = QuorumStateFile(replica.disk, replica.log_directory).read()
        in_log = replica.client.log_epoch
        if max(written.epoch if written else 0, in_log) < epoch:
            raise InvariantViolation(f"MonotonicEpoch: node {replica.node_id} is in epoch {epoch}, but its disk is not")


class MonotonicHighWatermark:
    """The high watermark of the quorum never goes back, across leaders."""

    def __init__(self) -> None:
        self._highest: Offset = 0

    def check(self, replicas: "Iterable[SimulatedReplica]") -> None:
        for replica in replicas:
            leader = replica.client.state
            if isinstance(leader, LeaderState) and leader.high_watermark is not None and replica.is_newest_leader:
                if leader.high_watermark < self._highest:
                    raise InvariantViolation(
                        f"MonotonicHighWatermark: it was {self._highest}, and is {leader.high_watermark} at node "
                        f"{replica.node_id}"
                    )
                self._highest = leader.high_watermark


class MajorityReachedHighWatermark:
    """Records below the leader's high watermark are on the disks of a majority of its voters."""

    def __init__(self) -> None:
        self._checked: dict[NodeId, tuple[LeaderEpoch, Offset]] = {}

    def check(self, replicas: "Iterable[SimulatedReplica]") -> None:
        present = {replica.node_id: replica for replica in replicas}
        for replica in present.values():
            leader = replica.client.state
            if not isinstance(leader, LeaderState) or leader.high_watermark is None or not replica.is_newest_leader:
                continue
            at = (leader.epoch, leader.high_watermark)
            if self._checked.get(replica.node_id) == at:
                continue
            self._checked[replica.node_id] = at
            voters = leader.voters.node_ids
            reached = [voter for voter in voters if replica.reached(voter, leader.high_watermark)]
            if 2 * len(reached) <= len(voters):
                raise InvariantViolation(
                    f"MajorityReachedHighWatermark: node {replica.node_id} leads epoch {leader.epoch} with high "
                    f"watermark {leader.high_watermark}, which of {voters} only {reached} have"
                )


class SingleLeaderPerEpoch:
    """No two replicas lead the same epoch, and none votes for two."""

    def __init__(self) -> None:
        self._leaders: dict[LeaderEpoch, NodeId] = {}

    def check(self, replicas: "Iterable[SimulatedReplica]") -> None:
        for replica in replicas:
            state = replica.client.state
            if isinstance(state, CandidateState) and self._leaders.get(state.epoch) == replica.node_id:
                raise InvariantViolation(
                    f"SingleLeaderPerEpoch: node {replica.node_id} stands again in epoch {state.epoch}, which it led"
                )
            if isinstance(state, LeaderState):
                leader = self._leaders.setdefault(state.epoch, replica.node_id)
                if leader != replica.node_id:
                    raise InvariantViolation(
                        f"SingleLeaderPerEpoch: nodes {leader} and {replica.node_id} lead epoch {state.epoch}"
                    )


class ConsistentCommittedData:
    """Every listener of every replica gets the same record at an offset, and never skips or repeats one."""

    def __init__(self) -> None:
        self._committed: dict[Offset, tuple[LeaderEpoch, tuple[bytes, ...]]] = {}
        self._states: dict[Offset, bytes] = {0: b""}

    def on_batch(self, node_id: NodeId, base_offset: Offset, epoch: LeaderEpoch, records: tuple[bytes, ...]) -> None:
        known = self._committed.setdefault(base_offset, (epoch, records))
        if known != (epoch, records):
            raise InvariantViolation(
                f"ConsistentCommittedData: at offset {base_offset} node {node_id} got {records} of epoch {epoch}, "
                f"another {known}"
            )

    def on_state(self, node_id: NodeId, next_offset: Offset, state: bytes) -> None:
        """Compare the state that a replica has reached with that of the others at the same offset."""
        known = self._states.setdefault(next_offset, state)
        if known != state:
            raise InvariantViolation(
                f"ConsistentCommittedData: the state of node {node_id} at offset {next_offset} is not the others'"
            )


class AcknowledgedStaysCommitted:
    """Every later leader has the records that a leader has reported to its listeners as committed."""

    def __init__(self) -> None:
        self._epochs_by_offset: dict[Offset, LeaderEpoch] = {}
        self._checked: set[LeaderEpoch] = set()
        self._end: Offset = 0

    def on_batch(self, base_offset: Offset, last_offset: Offset, epoch: LeaderEpoch) -> None:
        self._epochs_by_offset[base_offset] = epoch
        self._end = max(self._end, last_offset + 1)

    def check(self, replicas: "Iterable[SimulatedReplica]") -> None:
        for replica in replicas:
            state = replica.client.state
            if not isinstance(state, LeaderState) or state.epoch in self._checked or not replica.is_newest_leader:
                continue
            self._checked.add(state.epoch)
            if replica.client.log_end_offset < self._end:
                raise InvariantViolation(
                    f"AcknowledgedStaysCommitted: node {replica.node_id} was elected in epoch {state.epoch} with a log "
                    f"that ends at {replica.client.log_end_offset}; offset {self._end - 1} was committed"
                )

"""A metadata quorum alone, simulated from one seed: several `RaftClient`s, their disks, and a network that fails.

Time passes only from event to event. Requests and responses travel with random delays, hence out of order; links may
be cut one way; nodes are killed, lose power, restart, or start with an empty disk. After every event the
invariants are checked (`ottla.simulator.runs.quorum.invariants`).

Source: RaftEventSimulationTest of Apache Kafka.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.errors import KafkaError
from ottla.purgatory import Delayed
from ottla.raft.config import RaftConfig
from ottla.raft.voter_set import KRAFT_VERSION_FEATURE, Voter, VoterSet
from ottla.simulator.runs.quorum.invariants import (
    AcknowledgedStaysCommitted,
    ConsistentCommittedData,
    InvariantViolation,
    MajorityReachedHighWatermark,
    MonotonicEpoch,
    MonotonicHighWatermark,
    SingleLeaderPerEpoch,
)
from ottla.simulator.runs.quorum.replica import CLUSTER_ID, LISTENER, SimulatedReplica, endpoint_of
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID, Endpoint, NodeId, Offset, OffsetAndEpoch
from ottla.wire.codec import Message
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from ottla.wire.messages.vote import VoteRequest

_EVENTS_AT_ONE_TIME_MAX = 20_000


class SimulatedQuorum:
    """See the module.

    Args of the constructor:
        voters, observers, standby: how many of each, their ids counting from 1 in this order; those on standby are
            controllers that are no voters yet.
        is_dynamic: the voters are in the log (kraft.version 1), else in the configuration.
    """

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 0,
        standby: int = 0,
        is_dynamic: bool = True,
        snapshot_interval_batches: int = 50,
        config: RaftConfig | None = None,
    ) -> None:
        self.random = SeededRandom(seed)
        self.clock = SimulatedClock()
        self.config = config or RaftConfig()
        self.loss_percent = 0
        self.latency_ms_max = 5
        self.committed_offset: Offset = 0
        self.event_count = 0
        self.snapshot_interval_batches = snapshot_interval_batches
        self._batches_until_snapshot: dict[NodeId, int] = {}
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._sequence = 0
        self._cut: set[tuple[NodeId, NodeId]] = set()
        self._ends: dict[tuple[NodeId, int], list[Callable[[], object]]] = {}
        self._value = 0
        self.monotonic_epoch = MonotonicEpoch()
        self.consistent = ConsistentCommittedData()
        self.acknowledged = AcknowledgedStaysCommitted()
        self.invariants: list[Any] = [
            self.monotonic_epoch,
            MonotonicHighWatermark(),
            MajorityReachedHighWatermark(),
            SingleLeaderPerEpoch(),
            self.acknowledged,
        ]
        voter_ids = range(1, voters + 1)
        self.bootstrap_servers = [endpoint_of(node_id) for node_id in voter_ids]
        static = None
        if not is_dynamic:
            static = VoterSet.of(Voter(each, ZERO_UUID, {LISTENER: endpoint_of(each)}) for each in voter_ids)
        self.replicas: dict[NodeId, SimulatedReplica] = {}
        for node_id in range(1, voters + observers + standby + 1):
            is_observer = voters < node_id <= voters + observers
            self.replicas[node_id] = SimulatedReplica(
                self, node_id, static_voters=static, is_controller=not is_observer
            )
        if is_dynamic:
            voter_set = VoterSet.of(self.replicas[each].voter for each in voter_ids)
            for node_id in voter_ids:
                self.replicas[node_id].format(voter_set)

    # --- replicas

    def running(self) -> list[SimulatedReplica]:
        return [replica for replica in self.replicas.values() if replica.is_running]

    def leaders(self) -> list[SimulatedReplica]:
        return [replica for replica in self.running() if replica.client.is_leader]

    def leader(self) -> SimulatedReplica | None:
        """Return the leader of the newest epoch."""
        return max(self.leaders(), key=lambda replica: replica.client.leader_and_epoch.epoch, default=None)

    def has_working_leader(self) -> bool:
        leader = self.leader()
        return leader is not None and leader.client.high_watermark is not None

    def is_voter(self, replica: SimulatedReplica) -> bool:
        """Whether ``replica``, with the disk that it has now, is one of the leader's voters."""
        leader = self.leader()
        return leader is not None and leader.client.voters.is_voter(replica.key)

    def replica_at(self, endpoint: Endpoint) -> SimulatedReplica:
        return next(each for each in self.replicas.values() if endpoint_of(each.node_id) == endpoint)

    def start_all(self, node_ids: Iterable[NodeId] | None = None) -> None:
        for node_id in self.replicas if node_ids is None else node_ids:
            self.replicas[node_id].start()

    def begin(self) -> SimulatedReplica:
        """Start all, and let time pass until every replica has a record; return the leader."""
        self.start_all()
        self.run_until(self.has_working_leader)
        self.append()
        self.run(1_000)
        leader = self.leader()
        assert leader is not None
        return leader

    def kill(self, node_id: NodeId, *, power_cut: bool = False) -> None:
        replica = self.replicas[node_id]
        ended = self._ends.pop((node_id, replica.generation), [])
        replica.kill(power_cut=power_cut)
        for end in ended:
            end()

    def close(self, node_id: NodeId) -> None:
        """Stop a node in order."""
        replica = self.replicas[node_id]
        done = replica.client.begin_shutdown()
        self.run_until(lambda: done.is_complete, within_ms=10_000)
        ended = self._ends.pop((node_id, replica.generation), [])
        replica.close()
        for end in ended:
            end()

    # --- trouble

    def disturb(self) -> None:
        """Do one harmful thing that a quorum must survive, and start some of the nodes that are down."""
        down = [node_id for node_id, replica in self.replicas.items() if not replica.is_running]
        kinds = (
            self._kill_one,
            self._kill_leader,
            self._cut_one_off,
            self._slow_down,
            self._depose,
            self.heal,
            lambda: None,
        )
        kinds[self.random.randrange(len(kinds))]()
        for node_id in down:
            if self.random.randrange(2):
                self.replicas[node_id].start()

    def _kill_one(self) -> None:
        running = self.running()
        if running:
            chosen = running[self.random.randrange(len(running))]
            self.kill(chosen.node_id, power_cut=bool(self.random.randrange(2)))

    def _kill_leader(self) -> None:
        leader = self.leader()
        if leader is not None:
            self.kill(leader.node_id, power_cut=bool(self.random.randrange(2)))

    def _cut_one_off(self) -> None:
        node_ids = list(self.replicas)
        chosen = node_ids[self.random.randrange(len(node_ids))]
        self.cut([chosen], node_ids, both_ways=bool(self.random.randrange(2)))

    def _slow_down(self) -> None:
        self.loss_percent = self.random.randrange(20)
        self.latency_ms_max = 1 + self.random.randrange(60)

    def _depose(self) -> None:
        leader = self.leader()
        if leader is not None:
            leader.client.resign(leader.client.leader_and_epoch.epoch)

    def repair(self) -> None:
        """End all faults: every node runs, and everything arrives."""
        self.heal()
        self.latency_ms_max = 5
        for replica in self.replicas.values():
            if not replica.is_running:
                replica.start()

    def change_voters(self) -> None:
        """Request the leader to add or remove a voter at random; it may reject that."""
        leader = self.leader()
        if leader is None:
            return
        controllers = [each for each in self.replicas.values() if each.is_controller]
        chosen = controllers[self.random.randrange(len(controllers))]
        voters = leader.client.voters
        if not voters.is_voter(chosen.key):
            host, port = endpoint_of(chosen.node_id)
            leader.client.handle_add_voter(
                AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    timeout_ms=1_000,
                    voter_id=chosen.node_id,
                    voter_directory_id=chosen.directory_id,
                    listeners=[Listener(name=LISTENER, host=host, port=port)],
                    ack_when_committed=bool(self.random.randrange(2)),
                )
            )
        elif len(voters.voters) > 2:
            leader.client.handle_remove_voter(
                RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=chosen.node_id, voter_directory_id=chosen.directory_id
                )
            )

    # --- the network

    def latency_ms(self) -> int:
        return 1 + self.random.randrange(self.latency_ms_max)

    def is_open(self, source: NodeId, target: NodeId) -> bool:
        if (source, target) in self._cut:
            return False
        return self.loss_percent == 0 or self.random.randrange(100) >= self.loss_percent

    def cut(self, sources: Iterable[NodeId], targets: Iterable[NodeId], *, both_ways: bool = True) -> None:
        """Drop messages from ``sources`` to ``targets``."""
        for source in sources:
            for target in targets:
                if source != target:
                    self._cut.add((source, target))
                    if both_ways:
                        self._cut.add((target, source))

    def heal(self) -> None:
        self._cut.clear()
        self.loss_percent = 0

    def on_end_of(self, replica: SimulatedReplica, end: Callable[[], object]) -> None:
        """Call ``end`` when the present process of ``replica`` ends."""
        self._ends.setdefault((replica.node_id, replica.generation), []).append(end)

    def serve(self, target: SimulatedReplica, request: Message) -> Delayed[Any]:
        client = target.client
        handlers: Mapping[type[Message], Callable[[Any], Any]] = {
            VoteRequest: client.handle_vote,
            BeginQuorumEpochRequest: client.handle_begin_quorum_epoch,
            EndQuorumEpochRequest: client.handle_end_quorum_epoch,
            FetchRequest: client.handle_fetch,
            FetchSnapshotRequest: client.handle_fetch_snapshot,
            AddRaftVoterRequest: client.handle_add_voter,
            RemoveRaftVoterRequest: client.handle_remove_voter,
            UpdateRaftVoterRequest: client.handle_update_voter,
            ApiVersionsRequest: lambda _: ApiVersionsResponse(
                supported_features=[SupportedFeatureKey(name=KRAFT_VERSION_FEATURE, min_version=0, max_version=1)]
            ),
        }
        result = handlers[type(request)](request)
        return result if isinstance(result, Delayed) else Delayed.of(result)

    # --- the workload

    def append(self) -> bool:
        """Append the next value at the leader; return whether there was one."""
        leader = self.leader()
        if leader is None or leader.client.high_watermark is None:
            return False
        self._value += 1
        try:
            leader.client.append(leader.client.leader_and_epoch.epoch, [b"%d" % self._value])
        except KafkaError:
            return False
        return True

    def append_every(self, interval_ms: int) -> None:
        """Go on appending for as long as the simulation runs."""

        def step() -> None:
            self.append()
            self.after(interval_ms, step)

        step()

    def maybe_snapshot(self, replica: SimulatedReplica, epoch: int) -> None:
        left = self._batches_until_snapshot.get(replica.node_id, self.snapshot_interval_batches) - 1
        self._batches_until_snapshot[replica.node_id] = left or self.snapshot_interval_batches
        if left:
            return
        writer = replica.client.create_snapshot(
            OffsetAndEpoch(replica.next_offset, epoch), last_contained_log_time_ms=self.clock.wall_ms()
        )
        if writer is not None:
            writer.append([replica.state])
            replica.client.finish_snapshot(writer)

    # --- time

    def after(self, delay_ms: int, event: Callable[[], object]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.clock.monotonic_ms() + delay_ms, self._sequence, event))

    def run(self, duration_ms: int) -> None:
        """Let ``duration_ms`` pass."""
        self._run(self.clock.monotonic_ms() + duration_ms, lambda: False)

    def run_until(self, condition: Callable[[], bool], *, within_ms: int = 60_000) -> int:
        """Let time pass until ``condition`` holds; return the elapsed milliseconds.

        Raises:
            InvariantViolation: it did not hold in time.
        """
        start_ms = self.clock.monotonic_ms()
        if not self._run(start_ms + within_ms, condition):
            states = {each.node_id: each.client.state for each in self.running()}
            raise InvariantViolation(f"nothing came of it within {within_ms} ms: {states}")
        return self.clock.monotonic_ms() - start_ms

    def _run(self, end_ms: int, condition: Callable[[], bool]) -> bool:
        at_once = 0
        while not condition():
            due_ms = min(self._next_ms(), end_ms)
            now_ms = self.clock.monotonic_ms()
            if due_ms > now_ms:
                self.clock.advance(due_ms - now_ms)
                at_once = 0
            at_once += 1
            if at_once > _EVENTS_AT_ONE_TIME_MAX:
                raise InvariantViolation(f"time stands still at {now_ms} ms: some replica is always due")
            if not self._step() and due_ms >= end_ms:
                return False
        return True

    def _next_ms(self) -> int:
        deadlines = [replica.client.next_deadline_ms() for replica in self.running()]
        if self._events:
            deadlines.append(self._events[0][0])
        return min((deadline for deadline in deadlines if deadline is not None), default=1 << 62)

    def _step(self) -> bool:
        """Do one thing that is due; return whether there was one."""
        now_ms = self.clock.monotonic_ms()
        self.event_count += 1
        if self._events and self._events[0][0] <= now_ms:
            heapq.heappop(self._events)[2]()
        else:
            due = [each for each in self.running() if (each.client.next_deadline_ms() or now_ms + 1) <= now_ms]
            if not due:
                return False
            due[0].client.tick(now_ms)
        running = self.running()
        for invariant in self.invariants:
            invariant.check(running)
        return True

"""One voter that follows, whose peers and disk the test plays, message by message."""

from typing import Any, NamedTuple

from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.raft.config import RaftConfig
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.requests import (
    Learned,
    begin_quorum_epoch_request,
    fetch_response,
    vote_request,
)
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import ZERO_UUID, Endpoint, OffsetAndEpoch, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchRequest, PartitionData

LOCAL = ReplicaKey(1, Uuid(b"d" * 16))
LEADER = 2
ENDPOINTS = {node_id: Endpoint(f"node-{node_id}", 9093) for node_id in (1, 2, 3)}


class Sent(NamedTuple):
    """One request in flight; complete its `response`."""

    endpoint: Endpoint
    request: Message
    response: Delayed[PeerResult]
    purpose: str


class ScriptedChannel:
    """A `PeerChannel` whose peers are played by the test."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        del listener, timeout_ms
        self.sent.append(Sent(endpoint, request, Delayed(), purpose))
        return self.sent[-1].response

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise NotImplementedError

    def take(self, kind: type[Message]) -> list[Sent]:
        """Return the requests of ``kind`` without a response, and remove them."""
        found = [sent for sent in self.sent if isinstance(sent.request, kind)]
        self.sent = [sent for sent in self.sent if not isinstance(sent.request, kind)]
        return found


class Follower:
    """Voter 1 of three, following voter 2 in epoch 1."""

    def __init__(self, serde: Any, config: RaftConfig | None = None) -> None:
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk()
        self.channel = ScriptedChannel()
        self.failures: list[Exception] = []
        self.committed: list[bytes] = []
        self.client: RaftClient[bytes] = RaftClient(
            disk=self.disk,
            clock=self.clock,
            directory="/d",
            node_id=LOCAL.node_id,
            directory_id=LOCAL.directory_id,
            serde=serde,
            static_voters=VoterSet.of(
                Voter(node_id, ZERO_UUID, {"CONTROLLER": endpoint}) for node_id, endpoint in ENDPOINTS.items()
            ),
            random=SeededRandom(1),
            channel=self.channel,
            cluster_id="c",
            listeners={"CONTROLLER": ENDPOINTS[1]},
            listener_name="CONTROLLER",
            bootstrap_servers=(),
            is_controller=True,
            config=config,
            on_failure=self.failures.append,
        )
        self.client.register(self)
        self.client.initialize()
        self.channel.sent.clear()
        self.client.handle_begin_quorum_epoch(
            begin_quorum_epoch_request(
                cluster_id="c", voter=LOCAL, leader=LeaderAndEpoch(LEADER, 1), listeners={"CONTROLLER": ENDPOINTS[2]}
            )
        )

    def on_committed(self, batches: Any) -> None:
        self.committed += [record for batch in batches for record in batch.records]

    def on_snapshot(self, reader: Any) -> None: ...

    def on_leader_change(self, leader: LeaderAndEpoch) -> None: ...

    def fetch(self) -> Sent:
        """Return the fetch in flight."""
        (sent,) = self.channel.take(FetchRequest)
        return sent

    def fetch_position(self) -> tuple[int, int]:
        request = self.channel.sent[-1].request
        assert isinstance(request, FetchRequest)
        partition = request.topics[0].partitions[0]
        return partition.fetch_offset, partition.last_fetched_epoch

    def respond(self, **fields: Any) -> None:
        """Complete the fetch in flight with a response of the leader."""
        partition = PartitionData(partition_index=0, **{"records": b"", "high_watermark": -1, **fields})
        self.fetch().response.complete(fetch_response(partition, Learned(LEADER, 1, ENDPOINTS[LEADER])))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with every tick that is due."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (due_ms := self.client.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.clock.advance(max(due_ms - self.clock.monotonic_ms(), 0))
            self.client.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def pre_vote_of_node_3(self) -> bool:
        """Whether this follower grants node 3 a pre-vote."""
        request = vote_request(
            cluster_id="c",
            voter=LOCAL,
            candidate=ReplicaKey(3, Uuid(b"f" * 16)),
            epoch=1,
            log_end=OffsetAndEpoch(100, 1),
            is_pre_vote=True,
        )
        return self.client.handle_vote(request).topics[0].partitions[0].vote_granted

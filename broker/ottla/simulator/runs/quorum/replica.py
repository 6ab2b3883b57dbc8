"""`SimulatedReplica`: one `RaftClient` with its simulated disk, which outlives the process."""

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.ports import Buffer
from ottla.raft.client import RaftClient
from ottla.raft.records import Batch, LeaderAndEpoch, ReplicaKey
from ottla.raft.snapshot import SnapshotReader, SnapshotWriter
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.runs.quorum.channel import SimulatedChannel
from ottla.simulator.runs.quorum.invariants import InvariantViolation
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import Endpoint, NodeId, Offset, OffsetAndEpoch

if TYPE_CHECKING:
    from ottla.simulator.runs.quorum.simulation import SimulatedQuorum

CLUSTER_ID = "simulated-quorum-00001"
LISTENER = "CONTROLLER"
DIRECTORY = "/metadata"
LOG_DIRECTORY = f"{DIRECTORY}/__cluster_metadata-0"


class BytesSerde:
    """Serde of records that are bytes: the identity."""

    def encode(self, record: bytes) -> bytes:
        return record

    def decode(self, value: Buffer) -> bytes:
        return bytes(value)


def endpoint_of(node_id: NodeId) -> Endpoint:
    return Endpoint(f"node-{node_id}", 9093)


class SimulatedReplica:
    """One node: its disk outlives its process."""

    def __init__(
        self, quorum: "SimulatedQuorum", node_id: NodeId, *, static_voters: VoterSet | None, is_controller: bool
    ) -> None:
        self.quorum = quorum
        self.node_id = node_id
        self.cluster_id = CLUSTER_ID
        self.on_other_cluster: Callable[[], None] | None = None
        self.more_listeners: dict[str, Endpoint] = {}
        self.log_directory = LOG_DIRECTORY
        self.is_running = False
        self.generation = 0
        self.directory_id = quorum.random.uuid()
        self._static_voters = static_voters
        self.is_controller = is_controller
        self.loaded: list[OffsetAndEpoch] = []
        self.disk = self._new_disk()
        self.client: RaftClient[bytes]
        self.next_offset: Offset = 0
        self.state = b""
        self.leader_changes: list[LeaderAndEpoch] = []

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def voter(self) -> Voter:
        return Voter(self.node_id, self.directory_id, {LISTENER: endpoint_of(self.node_id)})

    @property
    def is_newest_leader(self) -> bool:
        """Whether no later epoch has had a leader: a deposed leader may not know it yet."""
        return self.client.leader_and_epoch.epoch >= self.quorum.monotonic_epoch.newest_led

    def reached(self, voter_id: NodeId, offset: Offset) -> bool:
        """Return whether ``voter_id`` has all records below ``offset``; True for a replica that does not run."""
        replica = self.quorum.replicas[voter_id]
        return not replica.is_running or replica.client.log_end_offset >= offset

    # --- start and end

    def format(self, voters: VoterSet) -> None:
        """Write the snapshot with the voters, as ``ottla format`` does."""
        self.disk.make_directory(LOG_DIRECTORY)
        SnapshotWriter(
            disk=self.disk,
            clock=self.quorum.clock,
            directory=LOG_DIRECTORY,
            snapshot_id=OffsetAndEpoch(0, 0),
            serde=BytesSerde(),
            last_contained_log_time_ms=0,
            kraft_version=1,
            voters=voters,
        ).freeze()

    def start(self) -> None:
        assert not self.is_running, f"node {self.node_id} runs already"
        quorum = self.quorum
        self.generation += 1
        listeners = {LISTENER: endpoint_of(self.node_id), **self.more_listeners}
        self.next_offset, self.state, self.leader_changes = 0, b"", []
        self.client = RaftClient(
            disk=self.disk,
            clock=quorum.clock,
            directory=DIRECTORY,
            node_id=self.node_id,
            directory_id=self.directory_id,
            serde=BytesSerde(),
            static_voters=self._static_voters,
            random=quorum.random,
            channel=SimulatedChannel(quorum, self),
            cluster_id=self.cluster_id,
            listeners=listeners if self.is_controller else {},
            listener_name=LISTENER,
            bootstrap_servers=quorum.bootstrap_servers,
            is_controller=self.is_controller,
            config=quorum.config,
            on_failure=self._on_failure,
            on_other_cluster=self.on_other_cluster,
        )
        self.client.register(self)
        self.client.initialize()
        self.is_running = True

    def kill(self, *, power_cut: bool = False) -> None:
        """Kill the process; with ``power_cut`` its unsynced data is lost as well."""
        self.is_running = False
        self.generation += 1
        if power_cut:
            self.disk.crash(self.quorum.random)
        else:
            self.disk.kill()

    def close(self) -> None:
        """End the process in order."""
        self.client.close()
        self.kill()

    def wipe(self) -> None:
        """Replace the disk of a node that does not run by an empty one, formatted again."""
        assert not self.is_running, "only a node that does not run gets another disk"
        self.disk = self._new_disk()
        self.directory_id = self.quorum.random.uuid() if self._static_voters is None else self.directory_id
        self.quorum.monotonic_epoch.remove_node(self.node_id)

    def _new_disk(self) -> SimulatedDisk:
        quorum = self.quorum
        return SimulatedDisk(schedule=lambda perform: quorum.after(quorum.random.randrange(4), perform))

    def _on_failure(self, error: KafkaError) -> None:
        raise InvariantViolation(f"node {self.node_id} failed: {error}")

    # --- as a listener: the state is a digest of everything committed

    def on_committed(self, batches: Sequence[Batch[bytes]]) -> None:
        for batch in batches:
            if batch.base_offset != self.next_offset:
                raise InvariantViolation(
                    f"node {self.node_id} got offset {batch.base_offset} after {self.next_offset - 1}"
                )
            self.next_offset = batch.last_offset + 1
            self.quorum.consistent.on_batch(self.node_id, batch.base_offset, batch.epoch, batch.records)
            self.quorum.acknowledged.on_batch(batch.base_offset, batch.last_offset, batch.epoch)
            for record in batch.records:
                self.state = hashlib.sha256(self.state + record).digest()
            self.quorum.consistent.on_state(self.node_id, self.next_offset, self.state)
        self.quorum.committed_offset = max(self.quorum.committed_offset, self.next_offset)
        self.quorum.maybe_snapshot(self, batches[-1].epoch)

    def on_snapshot(self, reader: SnapshotReader[bytes]) -> None:
        self.next_offset = reader.snapshot_id.offset
        self.loaded.append(reader.snapshot_id)
        self.state = b"".join(record for batch in reader.batches() for record in batch.records)
        self.quorum.consistent.on_state(self.node_id, self.next_offset, self.state)

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id == self.node_id and self.next_offset < (self.client.high_watermark or 0):
            raise InvariantViolation(f"node {self.node_id} leads and has seen no record after {self.next_offset - 1}")
        self.leader_changes.append(leader)

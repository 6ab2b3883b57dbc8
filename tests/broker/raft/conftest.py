"""One replica of the quorum on a disk in memory; its records are byte strings."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.peers.channel import PeerChannel
from ottla.raft.client import RaftClient
from ottla.raft.config import RaftConfig
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.raft.snapshot import SnapshotWriter
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.runs.quorum.replica import SimulatedReplica
from ottla.simulator.runs.quorum.simulation import SimulatedQuorum
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_voter_quorum import NoPeers
from ottla.types import Endpoint, OffsetAndEpoch, Uuid

DIRECTORY_ID = Uuid(b"d" * 16)
LOG = "/d/__cluster_metadata-0"


class BytesSerde:
    """Encodes a record as itself."""

    def encode(self, record: bytes) -> bytes:
        return record

    def decode(self, value: Any) -> bytes:
        return bytes(value)


class Listener:
    """Keeps its notifications, in order."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.snapshots: list[OffsetAndEpoch] = []

    def on_committed(self, batches: Any) -> None:
        batch: Batch[bytes]
        for batch in batches:
            self.records += [(batch.base_offset + index, each) for index, each in enumerate(batch.records)]

    def on_snapshot(self, reader: Any) -> None:
        self.snapshots.append(reader.snapshot_id)
        self.records = [(-1, record) for batch in reader.batches() for record in batch.records]

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)


class Replica:
    """A replica that can be stopped, crashed and started again."""

    def __init__(
        self, *, dynamic: bool = True, config: RaftConfig | None = None, channel: PeerChannel | None = None
    ) -> None:
        self.disk = SimulatedDisk()
        self.channel = channel or NoPeers()
        self.clock = SimulatedClock()
        self.config = config
        voter = Voter(1, DIRECTORY_ID if dynamic else Uuid(bytes(16)), {"CONTROLLER": Endpoint("localhost", 9093)})
        self.static_voters = None if dynamic else VoterSet.of([voter])
        if dynamic:
            self.disk.make_directory(LOG)
            SnapshotWriter(
                disk=self.disk,
                clock=self.clock,
                directory=LOG,
                snapshot_id=OffsetAndEpoch(0, 0),
                serde=BytesSerde(),
                last_contained_log_time_ms=0,
                kraft_version=1,
                voters=VoterSet.of([voter]),
            ).freeze()
        self.start()

    def start(self, *, initialize: bool = True) -> None:
        self.listener = Listener()
        self.failures: list[Exception] = []
        self.client: RaftClient[bytes] = RaftClient(
            disk=self.disk,
            clock=self.clock,
            directory="/d",
            node_id=1,
            directory_id=DIRECTORY_ID,
            serde=BytesSerde(),
            random=SeededRandom(1),
            channel=self.channel,
            cluster_id="c",
            listeners={"CONTROLLER": Endpoint("localhost", 9093)},
            listener_name="CONTROLLER",
            bootstrap_servers=(),
            is_controller=True,
            static_voters=self.static_voters,
            config=self.config,
            on_failure=self.failures.append,
        )
        self.client.register(self.listener)
        if initialize:
            self.client.initialize()
            self.commit()

    def commit(self) -> None:
        self.disk.complete_syncs()

    def append(self, *records: bytes) -> int:
        return self.client.append(self.client.leader_and_epoch.epoch, records)

    def snapshot(self, *records: bytes) -> OffsetAndEpoch:
        """Write a snapshot of everything committed."""
        assert self.client.high_watermark is not None
        snapshot_id = OffsetAndEpoch(self.client.high_watermark, self.client.leader_and_epoch.epoch)
        writer = self.client.create_snapshot(snapshot_id, last_contained_log_time_ms=self.clock.wall_ms())
        assert writer is not None
        writer.append(records)
        self.client.finish_snapshot(writer)
        self.commit()
        return snapshot_id

    def read(self, path: str) -> bytes:
        return self.disk.open(path, read_only=True).pread(1 << 20, 0)


@pytest.fixture
def new_replica() -> Callable[..., Replica]:
    return Replica


@pytest.fixture
def replica() -> Replica:
    """A replica that was formatted with --standalone, elected."""
    return Replica()


@pytest.fixture
def bytes_serde() -> BytesSerde:
    return BytesSerde()


@pytest.fixture
def quorum() -> SimulatedQuorum:
    """Three voters with a leader and some records committed on all of them, without requests in flight."""
    created = SimulatedQuorum(1, voters=3, snapshot_interval_batches=10)
    created.start_all()
    created.run_until(created.has_working_leader)
    for _ in range(5):
        created.append()
        created.run(100)
    return created


@pytest.fixture
def leader(quorum: SimulatedQuorum) -> SimulatedReplica:
    found = quorum.leader()
    assert found is not None
    return found


@pytest.fixture
def follower(quorum: SimulatedQuorum, leader: SimulatedReplica) -> SimulatedReplica:
    return next(each for each in quorum.running() if each is not leader)

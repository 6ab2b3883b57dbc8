"""Controllers in memory, with any number of registered brokers.

`ControllerNode` is one controller with a quorum of one on its disk; `ControllerCluster` is several on a scripted log,
whose commits, losses and leaders the test controls.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from controller_requests import RequestHelpers
from ottla.controller.config import ControllerConfig
from ottla.controller.quorum_controller import QuorumController
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.bootstrap import bootstrap_records, read_bootstrap
from ottla.metadata.cluster import Listener
from ottla.metadata.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.purgatory import Delayed
from ottla.raft.records import Batch, LeaderAndEpoch
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_voter_quorum import CLUSTER_ID, create_single_voter_quorum, format_single_voter_quorum
from ottla.types import NodeId, Uuid
from ottla.wire.codec import Message
from ottla.wire.error_response import error_response


class Recorder:
    """A listener that keeps every committed record."""

    def __init__(self) -> None:
        self.records: list[MetadataRecord] = []

    def on_committed(self, batches: Any) -> None:
        batch: Batch[MetadataRecord]
        for batch in batches:
            self.records += batch.records

    def on_snapshot(self, reader: Any) -> None:
        self.records = [record for batch in reader.batches() for record in batch.records]

    def on_leader_change(self, leader: Any) -> None:
        """Do nothing."""


class LocalChannel:
    """A channel to the controller in the same process; rejections become error responses."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller

    def send(self, request: Message) -> Delayed[Message]:
        def to_response(decided: Message | KafkaError) -> Message:
            return error_response(request, decided) if isinstance(decided, KafkaError) else decided

        return self._controller.handle(request).then(to_response)


class ControllerNode(RequestHelpers):
    """One process: quorum, controller and loader, on a disk that survives it."""

    def __init__(
        self,
        *,
        disk: SimulatedDisk | None = None,
        clock: SimulatedClock | None = None,
        seed: int = 1,
        idle_interval_ms: int = 0,
        static: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
        default_replication_factor: int = 1,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.clock = clock or SimulatedClock()
        self.random = SeededRandom(seed)
        if not self.disk.exists("/d/meta.properties"):
            format_single_voter_quorum(self.disk, self.clock, self.random, features=features or {})
        self.settings = {
            "idle_interval_ms": idle_interval_ms,
            "static": static or {},
            "default_replication_factor": default_replication_factor,
        }
        self.seed = seed
        self.start()

    def start(self) -> None:
        self.raft = create_single_voter_quorum(self.disk, self.clock)
        self.controller = QuorumController(
            raft=self.raft,
            clock=self.clock,
            random=self.random,
            node_id=1,
            cluster_id=CLUSTER_ID,
            bootstrap=read_bootstrap(self.disk, "/d"),
            has_broker=False,
            config=ControllerConfig(
                listeners={"CONTROLLER": Listener("127.0.0.1", 9093, 0)},
                **self.settings,  # type: ignore[arg-type]
            ),
        )
        self.loader = MetadataLoader()
        self.recorder = Recorder()
        self.channel = LocalChannel(self.controller)
        for listener in (self.controller, self.loader, self.recorder):
            self.raft.register(listener)
        self.raft.initialize()
        self.commit()

    def restart(self, *, crash: bool = False) -> None:
        if crash:
            self.disk.crash()
        else:
            self.raft.close()
            self.disk.kill()
        self.start()

    def commit(self) -> None:
        """Sync and commit everything appended so far."""
        self.disk.complete_syncs()

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def ask(self, request: Message) -> Any:
        """Send ``request``; return the response once its records are committed."""
        delayed = self.channel.send(request)
        self.commit()
        return delayed.value

    def records_of(self, request: Message) -> list[MetadataRecord]:
        """Send ``request``; return its records."""
        before = len(self.recorder.records)
        self.ask(request)
        return self.recorder.records[before:]


class ScriptedLog:
    """The quorum's log, shared by all replicas; the test controls commits and the leader."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.batches: list[Batch[MetadataRecord]] = []
        self.committed_offset = -1
        self.leader = LeaderAndEpoch(None, 0)
        self.commits_at_once = True
        self.rejects_with: KafkaError | None = None

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


class ScriptedReplica:
    """The part of a `RaftClient` that a controller uses."""

    def __init__(self, log: ScriptedLog, node_id: NodeId, voter_ids: Sequence[NodeId]) -> None:
        self.log = log
        self.node_id = node_id
        self.kraft_version = 1
        self.upgrades: list[tuple[int, int, bool]] = []
        self.voters = SimpleNamespace(node_ids=list(voter_ids))
        self.listener: Any = None
        self.delivered = 0
        self.tell: Callable[[], None] = lambda: None

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self.log.leader

    @property
    def log_end_offset(self) -> int:
        return self.log.end_offset

    def append(self, epoch: int, records: Sequence[MetadataRecord]) -> int:
        assert self.log.leader == (self.node_id, epoch), "only the leader appends, in its epoch"
        if self.log.rejects_with is not None:
            raise self.log.rejects_with
        base = self.log.end_offset
        serde = MetadataRecordSerde()
        decoded = tuple(serde.decode(serde.encode(record)) for record in records)
        last = base + len(records) - 1
        self.log.batches.append(Batch(base, epoch, self.log.clock.wall_ms(), 0, decoded, last))
        if self.log.commits_at_once:
            self.log.committed_offset = last
            self.tell()
        return last

    def upgrade_kraft_version(self, epoch: int, version: int, *, validate_only: bool) -> None:
        self.upgrades.append((epoch, version, validate_only))
        if self.log.rejects_with is not None:
            raise self.log.rejects_with

    def deliver(self) -> None:
        """Deliver committed records that the controller has not received."""
        while self.delivered < len(self.log.batches):
            batch = self.log.batches[self.delivered]
            if batch.last_offset > self.log.committed_offset:
                break
            self.delivered += 1
            self.listener.on_committed([batch])


class ControllerCluster(RequestHelpers):
    """Controllers 101, 102, ... on one scripted log; the first leads."""

    def __init__(
        self,
        *brokers: NodeId,
        controllers: int = 1,
        static: dict[str, str] | None = None,
        features: dict[str, int] | None = None,
        metadata_version: int = 30,
        first_records: Sequence[MetadataRecord] = (),
        probe: Any = None,
        ping: Any = None,
        racks: dict[int, str] | None = None,
        seed: int = 1,
        **config: Any,
    ) -> None:
        self.clock = SimulatedClock()
        self.random = SeededRandom(seed)
        self.log = ScriptedLog(self.clock)
        ids = [101 + index for index in range(controllers)]
        self.replicas: dict[NodeId, ScriptedReplica] = {}
        self.controllers: dict[NodeId, QuorumController] = {}
        for node_id in ids:
            replica = self.replicas[node_id] = ScriptedReplica(self.log, node_id, ids)
            replica.tell = self._deliver_to_all
            replica.listener = self.controllers[node_id] = QuorumController(
                raft=replica,  # type: ignore[arg-type]
                clock=self.clock,
                random=self.random,
                node_id=node_id,
                cluster_id=CLUSTER_ID,
                bootstrap=[*bootstrap_records(metadata_version, features), *first_records],
                has_broker=False,
                config=ControllerConfig(
                    listeners={"CONTROLLER": Listener("127.0.0.1", 9093, 0)},
                    **{"idle_interval_ms": 0, "static": static or {}, **config},
                ),
                probe=probe,
                ping=ping,
            )
        self.elect(ids[0])
        for node_id in ids[1:]:
            assert self.ask(self.controller_registration(node_id)).error_code in (0, ErrorCode.UNSUPPORTED_VERSION)
        self.add_brokers(*brokers, racks=racks)

    def _deliver_to_all(self) -> None:
        for _, replica in sorted(self.replicas.items()):
            replica.deliver()

    def elect(self, node_id: NodeId | None) -> None:
        """Make another controller the leader; uncommitted records are lost."""
        self.log.batches = [each for each in self.log.batches if each.last_offset <= self.log.committed_offset]
        self.log.leader = LeaderAndEpoch(node_id, self.log.leader.epoch + 1)
        for _, controller in sorted(self.controllers.items()):
            controller.on_leader_change(self.log.leader)
        self._deliver_to_all()

    def commit(self) -> None:
        self.log.committed_offset = self.log.end_offset - 1
        self._deliver_to_all()

    @property
    def active(self) -> QuorumController:
        leader_id = self.log.leader.leader_id
        assert leader_id is not None
        return self.controllers[leader_id]

    @property
    def image(self) -> MetadataImage:  # type: ignore[override]
        return self.active.state.image

    @property
    def records(self) -> list[MetadataRecord]:
        return [record for batch in self.log.batches for record in batch.records]

    def send(self, request: Message) -> Any:
        """Send to the active controller; return the Delayed result, in which a rejection is a KafkaError."""
        return self.active.handle(request)

    def ask(self, request: Message) -> Any:
        """Send to the active controller; return the response, which must be complete at once."""
        response = self.send(request).value
        return error_response(request, response) if isinstance(response, KafkaError) else response

    def records_of(self, request: Message) -> list[MetadataRecord]:
        before = len(self.records)
        self.ask(request)
        return self.records[before:]

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and tick at its end."""
        self.clock.advance(milliseconds)
        self.tick()

    def tick(self) -> None:
        for _, controller in sorted(self.controllers.items()):
            controller.tick(self.clock.monotonic_ms())

    def fence(self, *broker_ids: NodeId) -> None:
        """Fence the brokers by heartbeats that request it, with the effect of a session timeout."""
        for broker_id in broker_ids:
            assert self.ask(self.heartbeat(broker_id, want_fence=True)).is_fenced

    def unfence(self, *broker_ids: NodeId) -> None:
        for broker_id in broker_ids:
            assert not self.ask(self.heartbeat(broker_id)).is_fenced

    def restart_broker(self, broker_id: NodeId, *, clean: bool, directories: list[Uuid] | None = None) -> None:
        """Register and unfence a fenced broker's next incarnation, with ``directories`` or its former ones."""
        previous = self.epoch_of(broker_id) if clean else -1
        before = self.broker_of(broker_id)
        response = self.ask(
            self.registration(
                broker_id,
                previous_broker_epoch=previous,
                rack=before.rack,
                log_dirs=directories or list(before.directories),
            )
        )
        assert response.error_code == ErrorCode.NONE, response
        self.unfence(broker_id)

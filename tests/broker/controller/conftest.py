"""A controller on a quorum of one, in memory, with as many registered brokers as a test asks for."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.controller.controller import Controller, ControllerConfig
from ottla.controller.error_response import error_response
from ottla.errors import ErrorCode, KafkaError
from ottla.log.meta_properties import read_meta_properties
from ottla.metadata.bootstrap import read_bootstrap
from ottla.metadata.cluster import Listener
from ottla.metadata.format import FormatOptions, format_storage
from ottla.metadata.image import MetadataImage
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.metadata_version import SUPPORTED_FEATURES
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.raft.records import Batch
from ottla.simulator.chance import SeededRandom
from ottla.simulator.clock import SimulatedClock
from ottla.simulator.disk import SimulatedDisk
from ottla.types import Endpoint, NodeId, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


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
        """Nothing."""


class NextDoor:
    """The way to the controller without a network: its answers, and its refusals as responses."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def send(self, request: Message) -> Delayed[Message]:
        def answer(decided: Message | KafkaError) -> Message:
            return error_response(request, decided) if isinstance(decided, KafkaError) else decided

        return self._controller.handle(request).then(answer)


class ControllerNode:
    """One process: quorum, controller and loader, on a disk that outlives it."""

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
            options = FormatOptions(
                cluster_id=CLUSTER_ID,
                node_id=1,
                log_directories=["/d"],
                metadata_log_directory="/d",
                is_controller=True,
                standalone=True,
                listeners={"CONTROLLER": Endpoint("127.0.0.1", 9093)},
                features=features or {},
            )
            format_storage(self.disk, self.clock, self.random, options)
        self.settings = {
            "idle_interval_ms": idle_interval_ms,
            "static": static or {},
            "default_replication_factor": default_replication_factor,
        }
        self.seed = seed
        self.start()

    def start(self) -> None:
        properties = read_meta_properties(self.disk, "/d")
        assert properties is not None
        assert properties.directory_id is not None
        self.raft: RaftClient[MetadataRecord] = RaftClient(
            disk=self.disk,
            clock=self.clock,
            directory="/d",
            node_id=1,
            directory_id=properties.directory_id,
            serde=MetadataRecordSerde(),
        )
        self.controller = Controller(
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
        self.channel = NextDoor(self.controller)
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
        """Let everything appended so far reach the disk."""
        self.disk.complete_syncs()

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def ask(self, request: Message) -> Any:
        """Send ``request``; return the answer once its records are committed."""
        delayed = self.channel.send(request)
        self.commit()
        return delayed.value

    def records_of(self, request: Message) -> list[MetadataRecord]:
        """Send ``request``; return the records that it made."""
        before = len(self.recorder.records)
        self.ask(request)
        return self.recorder.records[before:]

    def registration(self, broker_id: NodeId, **said: Any) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=said.get("cluster_id", CLUSTER_ID),
            incarnation_id=said.get("incarnation_id", self.random.uuid()),
            features=[
                Feature(name=name, min_supported_version=first, max_supported_version=last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=said.get("rack"),
            log_dirs=said.get("log_dirs", [Uuid(bytes([broker_id + 100]) * 16)]),
            previous_broker_epoch=said.get("previous_broker_epoch", -1),
        )

    def heartbeat(self, broker_id: NodeId, **said: Any) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=said.get("epoch", self.epoch_of(broker_id)),
            current_metadata_offset=said.get("offset", self.loader.applied_offset),
            want_fence=said.get("want_fence", False),
            want_shut_down=said.get("want_shut_down", False),
            offline_log_dirs=said.get("offline_log_dirs", []),
        )

    def epoch_of(self, broker_id: NodeId) -> int:
        broker = self.image.cluster.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def add_brokers(self, *broker_ids: NodeId, racks: dict[int, str] | None = None) -> None:
        """Register the brokers and let them in."""
        for broker_id in broker_ids:
            answer = self.ask(self.registration(broker_id, rack=(racks or {}).get(broker_id)))
            assert answer.error_code == ErrorCode.NONE
            assert not self.ask(self.heartbeat(broker_id)).is_fenced

    def create_topic(self, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> Any:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        return self.ask(CreateTopicsRequest(topics=[topic])).topics[0]


@pytest.fixture
def new_controller() -> Callable[..., ControllerNode]:
    """Return the class: ``new_controller(features=..., static=...)``."""
    return ControllerNode


@pytest.fixture
def node() -> ControllerNode:
    """A controller with the broker 1."""
    node = ControllerNode()
    node.add_brokers(1)
    return node

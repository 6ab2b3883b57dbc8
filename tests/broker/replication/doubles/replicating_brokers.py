"""Brokers that replicate, in one thread: real replica managers, handlers and logs; a scripted controller and wire.

Nothing happens by itself: `Cluster.settle` delivers messages until every broker waits, `Cluster.run` lets time pass.
The controller's decisions are records in one list, which each broker applies when the test says so.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.meta_properties import MetaProperties, write_meta_properties
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Provenance
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.purgatory.memory_budget import MemoryBudget
from ottla.replication.config import ReplicationConfig
from ottla.replication.partition import Partition
from ottla.replication.peer_brokers import PeerBrokers
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.security.authorizer import AllowEveryone
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.registry import ApiKey
from ottla.wire.records import Record, RecordBatch, build_batch, iterate_batches, read_records
from scripted_controller import DIRECTORY_ID, Controller

DIRECTORIES = {"/data": DIRECTORY_ID, "/data2": Uuid(b"e" * 16), "/data3": Uuid(b"f" * 16)}
VERSIONS = {ApiKey.FETCH: 18, ApiKey.LIST_OFFSETS: 10, ApiKey.PRODUCE: 11}


class Broker:
    """One broker, whose disk survives its processes; `start` and `stop` begin and end a process."""

    def __init__(self, cluster: "Cluster", node_id: int, config: LogConfig, replication: ReplicationConfig) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.log_config = config
        self.replication = replication
        self.disk = SimulatedDisk()
        for path, directory_id in DIRECTORIES.items():
            self.disk.make_directory(path)
            write_meta_properties(
                self.disk, path, MetaProperties(cluster_id="cluster", node_id=node_id, directory_id=directory_id)
            )
        self.is_up = False
        self.lives = 0
        self.applied = 0
        self.broker_epoch = -1
        self.sent: list[Message] = []

    def start(self) -> None:
        cluster = self.cluster
        self.is_up = True
        self.lives += 1
        self.applied = 0
        self.cache = MetadataCache(cluster.clock)
        self.background = SimulatedBackground()
        self.logs = LogManager(
            disk=self.disk,
            clock=cluster.clock,
            random=cluster.random,
            log_directories=list(DIRECTORIES)[: self.cluster.directory_count],
            node_id=self.node_id,
            cluster_id="cluster",
            on_directory_failure=lambda path, _: self.replicas.metadata_publisher.on_directory_failure(
                self.logs.lost_partitions(path)
            ),
            background=self.background,
        )
        self.logs.start(config_of_topic=self.config_of)
        peer_brokers = PeerBrokers(
            channel=Channel(cluster, self),
            endpoint_of=lambda node_id: self.cache.broker_endpoint(node_id, "PLAINTEXT"),
            send_to_controller=lambda request: cluster.ask_controller(self, request),
            broker_epoch=lambda: self.broker_epoch,
        )
        self.replicas = ReplicaManager(
            node_id=self.node_id,
            logs=self.logs,
            clock=cluster.clock,
            config_of_topic=self.config_of,
            peer_brokers=peer_brokers,
            background=self.background,
            config=self.replication,
        )
        self.services: Any = SimpleNamespace(
            clock=cluster.clock,
            background=self.background,
            work_memory=MemoryBudget(1 << 26),
            config=SimpleNamespace(fetch_max_bytes=57671680, ottla_advertise_dialled_address=False),
            metadata=self.cache,
            fetch_sessions=FetchSessionCache(random=cluster.random),
            replicas=self.replicas,
            logs=self.logs,
            authorizer=AllowEveryone(),
        )

    def config_of(self, topic: str) -> LogConfig:
        values = self.cache.topic_config(topic) if self.is_up else {}
        config = self.log_config
        if "min.insync.replicas" in values:
            config = replace(config, min_insync_replicas=int(values["min.insync.replicas"]))
        if "ottla.acks.fsync" in values:
            config = replace(config, ottla_acks_fsync=values["ottla.acks.fsync"] == "true")
        if "flush.messages" in values:
            config = replace(config, flush_messages=int(values["flush.messages"]))
        return config

    def learn(self, upto: int | None = None) -> None:
        """Apply the controller's records up to a number of them, all by default."""
        end = len(self.cluster.controller.records) if upto is None else upto
        if end <= self.applied:
            return
        delta = MetadataDelta(self.cache.image)
        for record in self.cluster.controller.records[self.applied : end]:
            delta.replay(record)
        self.applied = end
        image = delta.apply(Provenance(end - 1, 1, 0))
        self.cache.publish(delta, image)
        self.replicas.metadata_publisher.publish(delta, image)

    def handle(self, request: Message, version: int, done: Callable[[Message | None], object]) -> None:
        """Serve one request without pipelining, as the node's `ConnectionManager` does."""
        self.cluster.serve(self.services, request, version).on_complete(done)
        self.replicas.announce_appends()

    def ask(self, request: Message, version: int) -> list[Any]:
        """Send a client's request; return a list that gets the response."""
        responses: list[Any] = []
        self.handle(request, version, responses.append)
        return responses

    # --- state for assertions

    def partition(self, index: int = 0, topic: str = "t") -> Partition:
        found = self.replicas.find(topic, index)
        assert found is not None, f"node {self.node_id} has no {topic}-{index}"
        return found

    def batches(self, index: int = 0, topic: str = "t") -> list[RecordBatch]:
        log = self.partition(index, topic).log
        batches: list[RecordBatch] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            found = log.read(offset, size_bytes_max=1 << 20).records
            assert found is not None
            batches += [batch for batch in iterate_batches(bytearray(found.read())) if batch.last_offset >= offset]
            offset = batches[-1].next_offset
        return batches

    def values(self, index: int = 0, topic: str = "t") -> list[bytes]:
        return [
            record.value or b""
            for batch in self.batches(index, topic)
            for record in read_records(batch, size_bytes_max=1 << 20)
        ]

    def log_bytes(self, index: int = 0, topic: str = "t") -> bytes:
        """Every segment's bytes, one after the other."""
        directory = self.partition(index, topic).log.directory
        paths = [path for path in self.disk.paths() if path.startswith(f"{directory}/") and path.endswith(".log")]
        return b"".join(self.disk.contents(path) for path in paths)

    # --- clients

    def produce(self, *values: bytes, acks: int = -1, index: int = 0, topic: str = "t", timeout_ms: int = 5_000) -> Any:
        """Produce one batch; return a list that gets the partition's response."""
        now_ms = self.cluster.clock.wall_ms()
        batch = build_batch([Record(offset, now_ms, None, value) for offset, value in enumerate(values)])
        data = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        responses: list[Any] = []
        self.handle(
            request,
            11,
            lambda response: responses.append(response and response.responses[0].partition_responses[0]),  # type: ignore[attr-defined]
        )
        return responses

    def fetch(
        self, offset: int, *, index: int = 0, topic: str = "t", version: int = 12, **wanted: Any
    ) -> PartitionData:
        """Read as a consumer that does not wait."""
        rack = wanted.pop("rack", "")
        entry = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, **wanted)
        topics = [FetchTopic(topic=topic, partitions=[entry])]
        (response,) = self.ask(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics, rack_id=rack), version)
        data: PartitionData = response.responses[0].partitions[0]
        return data


@dataclass
class _Connection:
    """One connection to a node, which serves one request at a time."""

    queue: deque[tuple[Message, Delayed[PeerResult]]] = field(default_factory=deque)
    in_flight: Delayed[PeerResult] | None = None


class Channel:
    """`PeerChannel` of one broker in the cluster."""

    def __init__(self, cluster: "Cluster", broker: Broker) -> None:
        self.cluster = cluster
        self.broker = broker

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        assert listener == "PLAINTEXT"
        self.broker.sent.append(request)
        response: Delayed[PeerResult] = Delayed()
        to = int(endpoint.host.removeprefix("node"))
        key = (self.broker.node_id, to, purpose)
        self.cluster.connections.setdefault(key, _Connection()).queue.append((request, response))
        return response

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise AssertionError("replication does not probe")


class Cluster:
    """See the module. Brokers are numbered from 1, registered and up."""

    def __init__(
        self,
        count: int,
        *,
        config: LogConfig | None = None,
        replication: ReplicationConfig | None = None,
        racks: dict[int, str] | None = None,
        directory_count: int = 1,
        serve: Callable[..., Delayed[Any]],
    ) -> None:
        self.serve = serve
        self.directory_count = directory_count
        self.clock = SimulatedClock()
        self.random = SeededRandom(7)
        self.controller = Controller()
        self.connections: dict[tuple[int, int, str], _Connection] = {}
        self.cuts: set[tuple[int, int]] = set()
        self.slow_disks: set[int] = set()
        """Nodes whose syncs complete only when the test says so."""
        self.responses: deque[Callable[[], object]] = deque()
        self.tamper: Callable[[int, Message], Message] = lambda to, response: response
        """May change a response to a node."""
        self.brokers = {
            node_id: Broker(self, node_id, config or LogConfig(), replication or ReplicationConfig())
            for node_id in range(1, count + 1)
        }
        for node_id, broker in self.brokers.items():
            broker.start()
            broker.broker_epoch = self.controller.register(node_id, rack=(racks or {}).get(node_id))

    def __getitem__(self, node_id: int) -> Broker:
        return self.brokers[node_id]

    def up(self) -> list[Broker]:
        return [broker for broker in self.brokers.values() if broker.is_up]

    # --- time

    def learn(self) -> None:
        """Let every broker apply everything the controller has written."""
        for broker in self.up():
            broker.learn()

    def settle(self) -> None:
        """Deliver all messages, without passing time, until every broker waits; all brokers learn the metadata."""
        for _ in range(10_000):
            self.learn()
            for broker in self.up():
                broker.background.complete_work()
                if broker.node_id not in self.slow_disks:
                    broker.disk.complete_syncs()
                broker.replicas.tick(self.clock.monotonic_ms())
            if not self.step():
                return
        raise AssertionError("the cluster does not settle")

    def pump(self, count: int) -> None:
        """Deliver at most ``count`` requests and responses; no broker learns new metadata by that."""
        for _ in range(count):
            for broker in self.up():
                broker.background.complete_work()
                if broker.node_id not in self.slow_disks:
                    broker.disk.complete_syncs()
                broker.replicas.tick(self.clock.monotonic_ms())
            if not self.step():
                return

    def step(self) -> bool:
        """Deliver one request or one response; return whether there was any."""
        if self.responses:
            self.responses.popleft()()
            return True
        for (source, to, _), connection in list(self.connections.items()):
            if connection.in_flight is None and connection.queue:
                self._carry(source, to, connection)
                return True
        return False

    def _carry(self, source: int, to: int, connection: _Connection) -> None:
        request, pending = connection.queue.popleft()
        broker = self.brokers[to]
        if not broker.is_up or (source, to) in self.cuts:
            failure = PeerFailure.DISCONNECTED if broker.is_up else PeerFailure.CONNECTION_REFUSED
            self._later(source, lambda: pending.complete(failure))
            return
        connection.in_flight = pending

        def respond(response: Message | None) -> None:
            if connection.in_flight is pending and response is not None:
                connection.in_flight = None
                tampered = self.tamper(source, response)
                self._later(source, lambda: pending.complete(tampered))

        broker.handle(request, VERSIONS[ApiKey(request.api_key)], respond)

    def ask_controller(self, broker: Broker, request: Message) -> Delayed[Message]:
        response: Delayed[Message] = Delayed()
        self._later(broker.node_id, lambda: response.complete(self.controller.decide(request)))
        return response

    def _later(self, node_id: int, deliver: Callable[[], object]) -> None:
        """Deliver to a broker, unless its process has ended by then."""
        broker = self.brokers[node_id]
        lives = broker.lives
        self.responses.append(lambda: deliver() if broker.is_up and broker.lives == lives else None)

    def run(self, milliseconds: int) -> None:
        """Let time pass in steps of at most 50 ms, everything due done on time."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while True:
            self.settle()
            left_ms = end_ms - self.clock.monotonic_ms()
            if left_ms <= 0:
                return
            self.clock.advance(min(left_ms, 50))

    # --- faults

    def stop(self, node_id: int, *, power: bool = False, cleanly: bool = False) -> None:
        """End a broker's process, or cut its power: then only synced data is left."""
        broker = self.brokers[node_id]
        if cleanly:
            broker.logs.close(broker_epoch=broker.broker_epoch)
        broker.is_up = False
        if power:
            broker.disk.crash()
        else:
            broker.disk.kill()
        self._break(lambda source, to: node_id in (source, to))

    def start(self, node_id: int) -> None:
        broker = self.brokers[node_id]
        broker.start()
        rack = self.controller.image.cluster.brokers[node_id].rack
        broker.broker_epoch = self.controller.register(node_id, rack=rack)

    def shrink_time_ms(self, limit_ms: int) -> int | None:
        """Return after how many ms a change of the ISR is proposed; None when it is not within the limit."""
        start_ms = self.clock.monotonic_ms()
        while self.clock.monotonic_ms() - start_ms < limit_ms:
            self.run(100)
            if self.controller.requests:
                return int(self.clock.monotonic_ms() - start_ms)
        return None

    def cut(self, one: int, other: int) -> None:
        """Break the connections between two brokers, and prevent new ones."""
        self.cuts |= {(one, other), (other, one)}
        self._break(lambda source, to: (source, to) in self.cuts)

    def heal(self) -> None:
        self.cuts.clear()

    def _break(self, is_broken: Callable[[int, int], bool]) -> None:
        for (source, to, name), connection in list(self.connections.items()):
            if not is_broken(source, to):
                continue
            lost = [pending for _, pending in connection.queue]
            if connection.in_flight:
                lost.append(connection.in_flight)
            # A process that has ended gets no response.
            connection.in_flight, self.connections[source, to, name] = None, _Connection()
            for pending in lost:
                self._later(source, lambda pending=pending: pending.complete(PeerFailure.DISCONNECTED))  # type: ignore[misc]

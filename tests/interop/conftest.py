"""A real node as a process, Kafka's command-line tools, and librdkafka: fixtures of the interop tests.

Environment:
    OTTLA_KAFKA_LIBS: a folder with Kafka's jars; without it the tests that need a JVM tool are skipped. Kafka's
        assignors need a JDK 17 or 18: hash tables of a newer one have another order (`ottla.java_hashes`).
    OTTLA_INTEROP_BOOTSTRAP: the address of a running cluster to test, instead of a node started here.
    OTTLA_INTEROP_NODE: the command that runs one node in the foreground, with ``{port}`` and ``{dir}`` in it. The same
        tests then run against another implementation: JVM Kafka passes them, so they claim Kafka's behaviour.
"""

import asyncio
import contextlib
import importlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from jvm_kafka import kafka_libs
from tool_host import TOOLS, ToolHost, ToolResult

from ottla.client.admin import AdminClient as OwnAdmin
from ottla.client.cluster import Cluster
from ottla.client.errors import UnsupportedApiError
from ottla.client.producer import Producer as OwnProducer
from ottla.config.resource_type import ConfigResourceType
from ottla.wire.messages.end_txn import EndTxnRequest

with warnings.catch_warnings():
    # kafka-python reads its own package data in a way that importlib.resources has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka.admin")

HERE = Path(__file__).parent
OTTLA_DEV = f"{shlex.quote(sys.executable)} -m ottla dev --port {{port}} --data-dir {{dir}}"
START_TIMEOUT_S = 60
TOOL_TIMEOUT_S = 90
VERIFICATION = "transaction.partition.verification.enable"
COORDINATOR_ERRORS = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.interop)


Launch = Callable[[list[str], Path], "subprocess.Popen[bytes]"]


@dataclass(kw_only=True)
class Node:
    """One node, run in the foreground by ``command`` in a session of its own; without one, a node started elsewhere."""

    bootstrap: str
    launch: Launch | None = None
    command: list[str] | None = None
    directory: Path | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.bootstrap.split(",")[0].rsplit(":", 1)
        return host, int(port)

    @property
    def pid(self) -> int:
        if self.process is None:
            pytest.skip("the node is not ours: its process id is unknown")
        return self.process.pid

    @property
    def data_dir(self) -> Path:
        """The log directory, which holds the partitions' folders."""
        if self.directory is None:
            pytest.skip("the node is not ours: its files are unknown")
        return next(self.directory.rglob("meta.properties")).parent

    @property
    def rss_kb(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def log_text(self) -> str:
        """The node's output on stdout and stderr."""
        assert self.directory is not None
        return (self.directory / "node.out").read_text(errors="replace")

    def start(self) -> None:
        """Run the node and wait until its Metadata response has a broker."""
        assert self.launch is not None
        assert self.command is not None
        assert self.directory is not None
        self.process = self.launch(self.command, self.directory / "node.out")
        deadline = time.monotonic() + START_TIMEOUT_S
        while not serves_metadata(self.address):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"the node did not start: {self.command}\n{self.log_text()[-4000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Send SIGKILL to all of its session."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM for a clean shutdown; return its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)
        try:
            return self.process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            pytest.fail(f"the node did not end within {START_TIMEOUT_S} s of {how.name}\n{self.log_text()[-4000:]}")


def serves_metadata(address: tuple[str, int]) -> bool:
    """Return whether a Metadata response (v1, no topics) has at least one broker."""
    body = struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 0)
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=2) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        head = b""
        while len(head) < 12:
            piece = connection.recv(12 - len(head))
            if not piece:
                return False
            head += piece
        return bool(struct.unpack(">iii", head)[2] > 0)
    return False


@pytest.fixture(scope="session")
def new_node(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], launch: Launch
) -> Iterator[Callable[..., Node]]:
    """Return a function that starts one more node, on a free port and an empty directory."""
    nodes: list[Node] = []

    def start(*options: str, command_of: Callable[[int, Path], list[str]] | None = None) -> Node:
        """Start a node; ``options`` are those of `ottla dev`, where it is one.

        ``command_of(port, directory)`` returns the command of a node that is another implementation in any case.
        """
        if "OTTLA_INTEROP_BOOTSTRAP" in os.environ:
            pytest.skip("OTTLA_INTEROP_BOOTSTRAP names a cluster that this test may not end")
        directory = tmp_path_factory.mktemp("node")
        port = free_port()
        template = os.environ.get("OTTLA_INTEROP_NODE", OTTLA_DEV)
        command = shlex.split(template.format(port=port, dir=shlex.quote(str(directory))))
        if command_of is not None:
            command = command_of(port, directory)
        elif template == OTTLA_DEV:
            command += options
        node = Node(bootstrap=f"127.0.0.1:{port}", launch=launch, command=command, directory=directory)
        nodes.append(node)
        node.start()
        return node

    yield start
    for node in nodes:
        if node.process is not None and node.process.poll() is None:
            node.kill()
        assert node.directory is not None
        shutil.rmtree(node.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Node:
    """The node that most tests share; each test creates its own topics and groups."""
    if "OTTLA_INTEROP_BOOTSTRAP" in os.environ:
        return Node(bootstrap=os.environ["OTTLA_INTEROP_BOOTSTRAP"])
    return request.getfixturevalue("new_node")()  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def transactions(broker: Node) -> Node:
    """Return `broker` if it is a coordinator of transactions; skip if it is not."""

    async def check() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            await cluster.metadata()
            connection = await cluster.node_connection(min(cluster.nodes))
            connection.version_for(EndTxnRequest)

    try:
        asyncio.run(check())
    except UnsupportedApiError as error:
        pytest.skip(str(error))
    return broker


@pytest.fixture(scope="session")
def kafka_tool() -> Iterator[Callable[..., ToolResult]]:
    """Return ``kafka_tool(name, *args, input="", code=0)``: run one of Kafka's tools and check its exit status.

    ``code=None`` accepts any status.
    """
    libs = kafka_libs()
    if shutil.which("javac") is None:
        pytest.skip("no JDK (javac) on the path to run Kafka's tools with")
    host = ToolHost(libs)

    def run(name: str, *args: str, input: str = "", code: int | None = 0) -> ToolResult:
        result = host.run([TOOLS[name], *args], input, TOOL_TIMEOUT_S)
        assert code is None or result.code == code, f"{name} {args} ended with {result}"
        return result

    yield run
    host.close()


@pytest.fixture(scope="session")
def kafka(kafka_tool: Callable[..., ToolResult], broker: Node) -> Callable[..., ToolResult]:
    """Return ``kafka_tool`` with ``--bootstrap-server`` filled in."""
    return lambda name, *args, **more: kafka_tool(name, "--bootstrap-server", broker.bootstrap, *args, **more)


_names = itertools.count()


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Return a function that creates a name which no other test uses."""
    return lambda prefix: f"{prefix}-{os.getpid()}-{next(_names)}"


@pytest.fixture(scope="session")
def admin(broker: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def new_topic(
    admin: AdminClient, unique: Callable[[str], str], eventually: Callable[..., object]
) -> Iterator[Callable[..., str]]:
    """Return ``new_topic(partitions=1, **config)``: create a topic (dots in keys as underscores), return its name.

    A topic with old timestamps needs ``retention_ms=-1``: a retention check may run at any moment.
    """
    created: list[str] = []

    def create(partitions: int = 1, **config: object) -> str:
        name = unique("topic")
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        request = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin.create_topics([request])[name].result(timeout=30)
        created.append(name)
        eventually(lambda: is_led(name))
        return name

    def is_led(name: str) -> bool:
        """Return whether the broker has the topic, too: the controller, which creates it, has it first."""
        partitions = admin.list_topics(name, timeout=30).topics[name].partitions
        return bool(partitions) and all(partition.leader >= 0 for partition in partitions.values())

    yield create
    if created:
        for future in admin.delete_topics(created).values():
            future.exception(timeout=30)


@pytest.fixture
def produce(broker: Node) -> Callable[..., list[Message]]:
    """Return ``produce(topic, values, key=None, partition=-1, config=None, **more)``: send, return the reports."""

    def send(topic: str, values: list[bytes], config: dict[str, object] | None = None, **more: object) -> list[Message]:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5} | (config or {}))
        reports: list[Message] = []

        def on_delivery(error: object, message: Message) -> None:
            assert error is None, error
            reports.append(message)

        for value in values:
            producer.produce(topic, value, on_delivery=on_delivery, **more)
            producer.poll(0)
        assert producer.flush(30) == 0
        return reports

    return send


@pytest.fixture
def consume(broker: Node, unique: Callable[[str], str]) -> Callable[..., list[Message]]:
    """Return ``consume(topic, count, config=None)``: every partition from the start, until ``count`` records."""

    def receive(topic: str, count: int, config: dict[str, object] | None = None) -> list[Message]:
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": unique("reader"), "enable.auto.commit": False}
        consumer = Consumer(settings | (config or {}))
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        try:
            return poll_records(consumer, count)
        finally:
            consumer.close()

    return receive


@pytest.fixture
def commit(broker: Node, eventually: Callable[..., object]) -> Callable[[str, list[TopicPartition]], None]:
    """Return ``commit(group, places)``: commit without a subscription, which leaves a group without members."""

    def run(group: str, places: list[TopicPartition]) -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        eventually(lambda: is_committed(consumer, places))
        consumer.close()

    return run


def is_committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    """Commit; false while the coordinator is not available (the first commit creates __consumer_offsets)."""
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        if not error.args[0].retriable() and error.args[0].code() not in COORDINATOR_ERRORS:
            raise
        return False
    return True


def poll_records(consumer: Consumer, count: int, timeout_s: float = 60) -> list[Message]:
    """Return the next ``count`` records; fail after ``timeout_s`` with those that have arrived."""
    records: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records came in {timeout_s} s"
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            records.append(message)
    return records


@pytest.fixture
def take() -> Callable[..., list[Message]]:
    """Return ``take(consumer, count)``: the next records of a consumer that the test created itself."""
    return poll_records


async def set_verification(bootstrap: str, value: str) -> None:
    async with OwnAdmin(bootstrap) as admin:
        await admin.alter_configs(ConfigResourceType.BROKER, "", upserts={VERIFICATION: value})


@pytest.fixture
def hanging_transaction(transactions: Node, new_topic: Callable[..., str], eventually: Callable[..., object]) -> str:
    """Return a topic with a transactional record whose producer no coordinator knows.

    Leaders accept it without verification (KIP-890).
    """
    topic = new_topic()

    async def write() -> None:
        async with OwnProducer(transactions.bootstrap, linger_ms=0) as producer:
            producer._transactional_id, producer._produce_version_max = "unknown", 11
            sent = await producer.send(topic, b"late", partition=0)
            await producer.flush()
            await sent

    def is_written() -> bool:
        asyncio.run(write())
        return True

    asyncio.run(set_verification(transactions.bootstrap, "false"))
    try:
        time.sleep(0.5)
        eventually(is_written)
    finally:
        asyncio.run(set_verification(transactions.bootstrap, "true"))
    return topic


@pytest.fixture(scope="session")
def end_offset() -> Callable[[str, str], int]:
    """Return ``end_offset(bootstrap, topic)``: the sum over its partitions; 0 while the topic or a leader is not there.

    JVM Kafka lists a new topic before its leaders lead.
    """

    def fetch(bootstrap: str, topic: str) -> int:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        topics = admin.list_topics(timeout=30).topics
        if topic not in topics:
            return 0
        latest = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in topics[topic].partitions}
        try:
            return sum(each.result(timeout=30).offset for each in admin.list_offsets(latest).values())
        except KafkaException as error:
            if error.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION:
                return 0
            raise

    return fetch


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Return ``eventually(check)``, which calls ``check`` until its result is true and returns that, or fails."""

    def wait(check: Callable[[], object], timeout_s: float = 30) -> object:
        deadline = time.monotonic() + timeout_s
        while not (result := check()):
            assert time.monotonic() < deadline, f"still {result!r} after {timeout_s} s: {check}"
            time.sleep(0.1)
        return result

    return wait

"""One node and its world in memory: simulated clock, disk and network, real everything else.

Time passes only in `RunningNode.run`. `World` outlives a node: disk, clock, randomness. `Client` speaks in
messages over a simulated connection.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.config.node_config import NodeConfig
from ottla.errors import ErrorCode
from ottla.handlers.api import ConnectionInfo, ListenerRole
from ottla.metadata.format import FormatOptions, format_storage
from ottla.node.node import Node
from ottla.ports import Clock
from ottla.sasl.client_login import ClientLogin
from ottla.sasl.registry import MECHANISMS
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.network import Peer, SimulatedNetwork
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import (
    ApiKey,
    request_header_version,
    response_header_version,
    response_type,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MessageT = TypeVar("MessageT", bound=Message)

DIRECTORY = "/data"
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": DIRECTORY,
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
SASL_LISTENER = "LOCKED"
"""A listener with SASL, of a node with the settings `LOCKED`; its users are alice and eve."""
ALICE = ("alice", "secret")
JAAS = f'{MECHANISMS["PLAIN"].login_module} required user_alice="secret" user_eve="evil";'
LOCKED = {
    "listeners": f"{PROPERTIES['listeners']},{SASL_LISTENER}://localhost:9095",
    "advertised.listeners": f"{PROPERTIES['advertised.listeners']},{SASL_LISTENER}://localhost:9095",
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SASL_LISTENER}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"listener.name.{SASL_LISTENER.lower()}.plain.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "100",
}
LOCAL_ADDRESS = Endpoint("localhost", 9092)


def anonymous_client() -> ConnectionInfo:
    """Return the connection info of an anonymous client, for tests of parts of a node."""
    return ConnectionInfo(
        connection=1,
        peer=Endpoint("127.0.0.1", 40000),
        listener="PLAINTEXT",
        role=ListenerRole.BROKER,
        security_protocol="PLAINTEXT",
        local_address=LOCAL_ADDRESS,
    )


class Place(Protocol):
    """A node that runs, and the time around it."""

    @property
    def node(self) -> Node: ...

    @property
    def clock(self) -> Clock: ...

    def run(self, milliseconds: int) -> None:
        """Let time pass."""


class Client:
    """One connection to the node, spoken in messages."""

    def __init__(self, node: Place, peer: Peer) -> None:
        self.node = node
        self.peer = peer
        self._correlation_id = 0

    @property
    def is_closed(self) -> bool:
        return self.peer.is_closed

    def send_bytes(self, data: bytes) -> None:
        """Deliver ``data`` as a socket would: in pieces of the node's buffer."""
        while data and not self.peer.is_closed:
            assert self.peer.is_read_from, "the node has paused this connection"
            buffer = self.node.node.receive_buffer(self.peer.connection)
            piece = data[: len(buffer)]
            buffer[: len(piece)] = piece
            data = data[len(piece) :]
            self.node.node.received(self.peer.connection, len(piece))

    def frame(self, request: Message, version: int) -> bytes:
        self._correlation_id += 1
        key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=self._correlation_id, client_id="test"
        )
        body = header.encode(request_header_version(key, version)) + request.encode(version)
        return struct.pack(">i", len(body)) + body

    def send(self, request: Message, version: int) -> int:
        """Send ``request``; return its correlation id."""
        self.send_bytes(self.frame(request, version))
        return self._correlation_id

    def take_frame(self) -> bytes | None:
        """Return the next whole response that the node has sent, if there is one."""
        received = self.peer.received
        if len(received) < 4:
            return None
        size = int.from_bytes(received[:4], "big")
        if len(received) < 4 + size:
            return None
        frame = bytes(received[4 : 4 + size])
        del received[: 4 + size]
        return frame

    def response_to(self, request: Message, version: int) -> Message | None:
        """Return the next response, decoded as one to ``request``; None while there is none."""
        frame = self.take_frame()
        if frame is None:
            return None
        key = ApiKey(request.api_key)
        assert int.from_bytes(frame[:4], "big", signed=True) == self._correlation_id
        position = 5 if response_header_version(key, version) == 1 else 4
        return response_type(key).decode(memoryview(frame), version, position)

    def ask(self, request: Message, response_type_: type[MessageT], version: int) -> MessageT:
        """Send ``request`` and let time pass until its response is there, a minute at most."""
        self.send(request, version)
        for _ in range(6_000):
            response = self.response_to(request, version)
            if response is not None:
                assert isinstance(response, response_type_)
                return response
            self.node.run(10)
        raise AssertionError(f"no response to {request!r} within a minute")

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)

    def send_token(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version)

    def log_in(
        self, user: str, password: str, mechanism: str = "PLAIN", *, is_delegation_token: bool = False
    ) -> SaslAuthenticateResponse:
        """Run a SASL exchange; return its last response: of success, or the error."""
        assert self.handshake(mechanism).error_code == ErrorCode.NONE
        exchange = ClientLogin(mechanism, user, password, is_delegation_token=is_delegation_token).new_exchange(
            SeededRandom(1).randrange
        )
        token: bytes | None = exchange.first()
        while token is not None:
            response = self.send_token(token)
            if response.error_code != ErrorCode.NONE:
                return response
            token = exchange.evaluate(bytes(response.auth_bytes))
        return response


class RunningNode:
    """A node, its world, and time that passes only here."""

    def __init__(self, disk: SimulatedDisk, clock: SimulatedClock, random: SeededRandom, **overrides: str) -> None:
        self.disk = disk
        self.clock = clock
        self.network = SimulatedNetwork()
        self.background = SimulatedBackground()
        self.is_ready = False
        self.stopped: list[str | None] = []
        config = NodeConfig.from_properties(PROPERTIES | {key.replace("_", "."): overrides[key] for key in overrides})
        self.node = Node(
            config=config,
            clock=clock,
            disk=disk,
            network=self.network,
            random=random,
            background=self.background,
            advertised=config.advertised_listeners,
            on_ready=self._on_ready,
            on_stopped=self.stopped.append,
        )
        self.node.start()

    def _on_ready(self) -> None:
        self.is_ready = True

    def run(self, milliseconds: int) -> None:
        """Let time pass, in steps of at most 10 ms, with everything due done on time."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while True:
            self.disk.complete_syncs()
            self.background.complete_work()
            self.node.tick()
            left_ms = end_ms - self.clock.monotonic_ms()
            if left_ms <= 0:
                return
            self.clock.advance(min(left_ms, 10))

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(6_000):
            if condition():
                return
            self.run(10)
        raise AssertionError(f"not within a minute; the node is not ready: {self.node.readiness()}")

    def connect(self, listener: str = "PLAINTEXT") -> Client:
        peer = self.network.open()
        assert self._accept(peer, listener)
        return Client(self, peer)

    def accepts_connection(self, listener: str) -> bool:
        """Return whether the listener accepts a connection."""
        return self._accept(self.network.open(), listener)

    def _accept(self, peer: Peer, listener: str) -> bool:
        return self.node.accepted(
            peer.connection, listener=listener, peer=Endpoint("10.0.0.7", 5000), local_address=LOCAL_ADDRESS
        )


class World:
    """A formatted disk, a clock and randomness, which outlive a node."""

    def __init__(self, seed: int = 1, *, scram: Sequence[str] = ()) -> None:
        """``scram`` are the arguments of `ottla format --add-scram`."""
        self.clock = SimulatedClock()
        self.random = SeededRandom(seed)
        self.disk = SimulatedDisk()
        self.disk.make_directory(DIRECTORY)
        format_storage(
            self.disk,
            self.clock,
            self.random,
            FormatOptions(
                cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
                node_id=1,
                log_directories=[DIRECTORY],
                metadata_log_directory=DIRECTORY,
                is_controller=True,
                standalone=True,
                listeners={"CONTROLLER": Endpoint("localhost", 9093)},
                scram=scram,
            ),
        )

    def start_node(self, **overrides: str) -> RunningNode:
        """Start a node and wait until it serves."""
        running = RunningNode(self.disk, self.clock, self.random, **overrides)
        running.run_until(lambda: running.is_ready)
        return running

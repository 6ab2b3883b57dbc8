"""A `PeerClient` with a scripted peer."""

import struct
from collections.abc import Callable, Mapping, Sequence

import pytest

from ottla.peers.channel import PeerResult
from ottla.peers.client import PeerClient
from ottla.peers.config import PeerClientConfig
from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.purgatory import Delayed
from ottla.sasl.client_login import ClientLogin
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.headers import RequestHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, request_type, response_header_version
from ottla.wire.messages.vote import VoteRequest

PEER = Endpoint("10.0.0.2", 9093)
VERSIONS = {ApiKey.API_VERSIONS: (0, 4), ApiKey.VOTE: (0, 2), ApiKey.FETCH: (4, 17)}


class ScriptedNetwork:
    """Network on which the test establishes connections, responds and disconnects."""

    def __init__(self) -> None:
        self.connected: list[ConnectionId] = []
        self.sent: dict[ConnectionId, bytearray] = {}
        self.closed: list[ConnectionId] = []
        self.has_capacity = True

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        self.connected.append(len(self.connected) + 1)
        self.sent[self.connected[-1]] = bytearray()
        return self.connected[-1]

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        raise AssertionError("a client connects at once")

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        for chunk in chunks:
            assert not isinstance(chunk, FileSlice)
            self.sent[connection] += chunk
        return self.has_capacity

    def close_connection(self, connection: ConnectionId, *, at_once: bool = False) -> None:
        self.closed.append(connection)

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        raise AssertionError("a client does not accept connections")

    def pause_reading(self, connection: ConnectionId) -> None:
        raise AssertionError("a client never pauses reading")

    def resume_reading(self, connection: ConnectionId) -> None:
        raise AssertionError("a client never pauses reading")


class ScriptedPeer:
    """A client with a scripted peer."""

    def __init__(self, logins: Mapping[str, ClientLogin] | None = None) -> None:
        self.network = ScriptedNetwork()
        self.clock = SimulatedClock()
        self.config = PeerClientConfig()
        self.client = PeerClient(
            network=self.network, clock=self.clock, random=SeededRandom(1), config=self.config, logins=logins
        )

    def send(
        self, request: Message | None = None, *, timeout_ms: int = 1_000, purpose: str = ""
    ) -> Delayed[PeerResult]:
        return self.client.send(PEER, "CONTROLLER", request or VoteRequest(), timeout_ms=timeout_ms, purpose=purpose)

    def establish(self, connection: ConnectionId, versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        """Connect, and respond to the ApiVersions request that comes first."""
        self.client.connected(connection)
        request = self.next_request(connection)
        assert isinstance(request, ApiVersionsRequest)
        rows = (versions or VERSIONS).items()
        self.respond(
            connection,
            ApiVersionsResponse(
                api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in rows]
            ),
        )

    def next_request(self, connection: ConnectionId) -> Message | None:
        """Return the next request that was sent; note its header for `respond`."""
        sent = self.network.sent[connection]
        if not sent:
            return None
        size = int.from_bytes(sent[:4], "big")
        frame = bytes(sent[4 : 4 + size])
        del sent[: 4 + size]
        key, version = struct.unpack(">hh", frame[:4])
        header_version = request_header_version(ApiKey(key), version)
        self.header, position = RequestHeader.decode_from(frame, header_version)
        return request_type(ApiKey(key)).decode(frame, version, position)

    def respond(
        self, connection: ConnectionId, response: Message, *, version: int | None = None, skew: int = 0
    ) -> None:
        """Respond to the request that `next_request` returned last."""
        key = ApiKey(self.header.request_api_key)
        version = self.header.request_api_version if version is None else version
        body = struct.pack(">i", self.header.correlation_id + skew)
        body += b"\0" * response_header_version(key, version) + response.encode(version)
        self.deliver(connection, struct.pack(">i", len(body)) + body)

    def deliver(self, connection: ConnectionId, data: bytes, *, piece_bytes: int = 1 << 30) -> None:
        while data:
            buffer = self.client.receive_buffer(connection)
            piece = data[: min(len(buffer), piece_bytes)]
            buffer[: len(piece)] = piece
            data = data[len(piece) :]
            self.client.received(connection, len(piece))

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.client.tick(self.clock.monotonic_ms())


@pytest.fixture
def peer() -> ScriptedPeer:
    return ScriptedPeer()


@pytest.fixture
def new_sasl_peer() -> Callable[..., ScriptedPeer]:
    """Return a function that creates a client which authenticates at the peer."""

    def create(mechanism: str = "PLAIN", password: str = "secret") -> ScriptedPeer:
        return ScriptedPeer({"CONTROLLER": ClientLogin(mechanism, "node", password)})

    return create

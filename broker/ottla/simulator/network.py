"""Connections of one node without sockets: bytes go in by call, answers are collected; as `ports.Network`.

The peer of a connection is whoever holds its `Peer`: a test, or a simulated client. A peer may read slowly
(``takes_bytes``), which is what makes the core wait.
"""

from collections.abc import Sequence

from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.types import Endpoint


class Peer:
    """The other end of one connection."""

    def __init__(self, connection: ConnectionId) -> None:
        self.connection = connection
        self.received = bytearray()
        """What the node has sent and the peer has taken."""
        self.queued = bytearray()
        """What the node has sent and the peer has not taken yet."""
        self.takes_bytes = True
        self.is_closed = False
        self.is_read_from = True
        """False while the node has paused reading."""


class SimulatedNetwork:
    """All connections of one node."""

    queued_size_bytes_max = 1024 * 1024

    def __init__(self) -> None:
        self._peers: dict[ConnectionId, Peer] = {}
        self._next_id = 1

    def open(self) -> Peer:
        """Make a connection; the caller tells the node of it (`Node.accepted`)."""
        peer = self._peers[self._next_id] = Peer(self._next_id)
        self._next_id += 1
        return peer

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        peer = self._peers.get(connection)
        if peer is None or peer.is_closed:
            return True
        for chunk in chunks:
            peer.queued += chunk.read() if isinstance(chunk, FileSlice) else chunk
        if peer.takes_bytes:
            self.take(peer)
        return len(peer.queued) <= self.queued_size_bytes_max

    def take(self, peer: Peer) -> None:
        """Let the peer take everything that is queued; the caller then tells the node (`Node.drained`)."""
        peer.received += peer.queued
        peer.queued.clear()

    def close_connection(self, connection: ConnectionId) -> None:
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self.take(peer)
            peer.is_closed = True

    def pause_reading(self, connection: ConnectionId) -> None:
        self._set_reading(connection, is_read_from=False)

    def resume_reading(self, connection: ConnectionId) -> None:
        self._set_reading(connection, is_read_from=True)

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        """Make an outgoing connection; nothing answers until the caller says so."""
        return self.open().connection

    def _set_reading(self, connection: ConnectionId, *, is_read_from: bool) -> None:
        peer = self._peers.get(connection)
        if peer is not None:
            peer.is_read_from = is_read_from

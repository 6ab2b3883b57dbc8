"""Connections of one node without sockets: bytes go in by call, sent bytes are collected; as `ports.Network`.

The peer of a connection that was opened by `open` is the holder of its `Peer`: a test, or a simulated client. A peer
may read slowly (``takes_bytes``), which back-pressures the core. Connections between nodes go through a
`NetworkFabric`; without one, connection attempts of this node get no response.
"""

from collections.abc import Iterable, Sequence

from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.simulator.world.network_fabric import Core, NetworkFabric, Socket
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

    def __init__(self, fabric: NetworkFabric | None = None, host: str = "localhost") -> None:
        self._fabric = fabric
        self._host = host
        self._core: Core | None = None
        self._peers: dict[ConnectionId, Peer] = {}
        self._sockets: dict[ConnectionId, Socket] = {}
        self._next_id = 1
        self.accepting_paused: list[tuple[str, int]] = []
        """What the node asked for, by listener, in ms."""

    # --- between nodes

    def attach(self, core: Core, listeners: Iterable[tuple[str, int]]) -> None:
        """Connect ``core`` to the fabric, with its ``listeners`` by name and port."""
        assert self._fabric is not None, "this network is not joined to others"
        self._core = core
        for listener, port in listeners:
            self._fabric.listen(
                Endpoint(self._host, port), listener, core, new_connection=self._take_id, adopt=self._adopt
            )

    def vanish(self, *, silently: bool = False) -> None:
        """Close listeners and connections of a process that has ended; queued bytes are lost.

        ``silently`` when its host has lost power: then peers are not notified.
        """
        if self._fabric is None or self._core is None:
            return
        self._fabric.stop_listening(self._core)
        for socket in list(self._sockets.values()):
            if silently:
                self._fabric.abandon(socket)
            else:
                self._fabric.close(socket, "Connection reset by peer")
        self._sockets.clear()
        for peer in self._peers.values():
            peer.is_closed = True
        self._peers.clear()

    # --- clients that a test holds

    def open(self) -> Peer:
        """Open a connection; the caller passes it to the node (`Node.accepted`)."""
        connection = self._take_id()
        peer = self._peers[connection] = Peer(connection)
        return peer

    def take(self, peer: Peer) -> None:
        """Let the peer read all queued bytes; the caller then notifies the node (`Node.drained`)."""
        peer.received += peer.queued
        peer.queued.clear()

    # --- ports.Network

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        socket = self._sockets.get(connection)
        if socket is not None:
            assert self._fabric is not None
            data = _bytes_of(chunks[0]) if len(chunks) == 1 else b"".join(map(_bytes_of, chunks))
            return self._fabric.send(socket, data)
        peer = self._peers.get(connection)
        if peer is None or peer.is_closed:
            return True
        for chunk in chunks:
            peer.queued += _bytes_of(chunk)
        if peer.takes_bytes:
            self.take(peer)
        return len(peer.queued) <= self.queued_size_bytes_max

    def close_connection(self, connection: ConnectionId, *, at_once: bool = False) -> None:
        del at_once  # nothing is queued here
        socket = self._sockets.pop(connection, None)
        if socket is not None:
            assert self._fabric is not None
            self._fabric.close(socket)
            return
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self.take(peer)
            peer.is_closed = True

    def pause_reading(self, connection: ConnectionId) -> None:
        if connection in self._sockets:
            self._sockets[connection].is_read_from = False
        elif connection in self._peers:
            self._peers[connection].is_read_from = False

    def resume_reading(self, connection: ConnectionId) -> None:
        if connection in self._sockets:
            assert self._fabric is not None
            self._fabric.resume(self._sockets[connection])
        elif connection in self._peers:
            self._peers[connection].is_read_from = True

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        """Note it; tests that connect read it there."""
        self.accepting_paused.append((listener, for_ms))

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        """Connect to ``endpoint``; the listener's name has no effect here."""
        connection = self._take_id()
        if self._fabric is not None:
            assert self._core is not None, "a node that connects is attached"
            socket = self._sockets[connection] = Socket(self._core, self._host, connection)
            self._fabric.connect(socket, endpoint)
        return connection

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        """Do nothing: simulated hosts have addresses only."""

    # --- bookkeeping

    def _take_id(self) -> ConnectionId:
        self._next_id += 1
        return self._next_id - 1

    def _adopt(self, socket: Socket) -> None:
        self._sockets[socket.connection] = socket


def _bytes_of(chunk: Chunk) -> bytes:
    return chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk)

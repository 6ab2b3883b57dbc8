"""`Core`: the interface between the reactor and the node, which does not know sockets."""

from typing import Protocol

from ottla.ports import ConnectionId
from ottla.types import Endpoint


class Core(Protocol):
    """Object that the reactor drives: `node.node.Node`."""

    def accepted(
        self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint | None
    ) -> bool:
        """Accept a new connection, or reject it by returning False; on a TLS listener its handshake comes next.

        ``local_address`` is None unless `SocketOptions.reports_local_address`.
        """

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """Note that an accepted connection's handshake is complete; ``subject`` is the client certificate's."""

    def connected(self, connection: ConnectionId) -> None: ...

    def receive_buffer(self, connection: ConnectionId) -> memoryview: ...

    def received(self, connection: ConnectionId, size_bytes: int) -> None: ...

    def drained(self, connection: ConnectionId) -> None: ...

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether to serve the bytes that a peer sent before it hung up; called while reading is paused."""

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        """Note that a connection was lost or never established.

        ``was_connection_refused``: the host responded that no process listens there.
        """

    def tick(self) -> object: ...

    def next_deadline_ms(self) -> int | None: ...

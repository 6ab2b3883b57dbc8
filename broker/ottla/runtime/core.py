"""`Core`: what the reactor drives, which knows nothing of sockets."""

from typing import Protocol

from ottla.ports import ConnectionId
from ottla.types import Endpoint


class Core(Protocol):
    """What the reactor drives: `node.node.Node`."""

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint | None) -> bool:
        """Take a new connection, or refuse it by returning False; where there is TLS, its handshake comes now.

        ``dialled`` is None unless `SocketOptions.tells_dialled`.
        """

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """An accepted connection is through its handshake; ``subject`` is that of the client's certificate."""

    def connected(self, connection: ConnectionId) -> None: ...

    def receive_buffer(self, connection: ConnectionId) -> memoryview: ...

    def received(self, connection: ConnectionId, size_bytes: int) -> None: ...

    def drained(self, connection: ConnectionId) -> None: ...

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether what a peer sent before it hung up is still to be served; asked while it is not read."""

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None:
        """The peer is gone, or was never reached; ``was_refused``: it answered that no process listens there."""

    def tick(self) -> object: ...

    def next_deadline_ms(self) -> int | None: ...

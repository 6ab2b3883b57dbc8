"""`PeerChannel`: requests of a node to other nodes, for raft, replication and the way to the controller.

The result is the API's response class, or a `PeerFailure`, whose meaning the caller decides.
Source: KafkaClient and its ClientResponse in Apache Kafka.
"""

from enum import Enum
from typing import Protocol, TypeAlias

from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message


class PeerFailure(Enum):
    """Reason why there is no response."""

    CONNECTION_REFUSED = "connection refused"
    """No process listens at that address: a process that was there has ended."""
    DISCONNECTED = "the connection was lost"
    """Before the response arrived, or before the connection was established; the request may have been carried out."""
    TIMED_OUT = "no response in time"
    UNSUPPORTED_VERSION = "the peer supports no version of the request that has all of its fields"


PeerResult: TypeAlias = "Message | PeerFailure"


class PeerChannel(Protocol):
    """Requests to other nodes. Implemented by `peers.client.PeerClient`."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        """Send ``request`` to the node at ``endpoint``; connect first if there is no connection yet.

        Args:
            endpoint: address of the peer; a host name is resolved again for each connection.
            request: sent in the highest version that both sides support.
            listener: name of the peer's listener, which determines the security protocol.
            timeout_ms: from now, including connecting.
            purpose: requests with the same purpose to one endpoint share a connection, and are responded to in order; a
                fetch that waits for records needs a purpose of its own.
        """

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        """Test whether a process listens at ``endpoint``.

        The result is None if one does, after ``timeout_ms``: a process that is exiting may still seem to listen.
        """

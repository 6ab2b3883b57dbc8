"""`PeerChannel`: how a node asks another node; raft, replication and the way to the controller all use it.

An answer is the API's response class, or a `PeerFailure` that says how the asking failed: what a failure means is for
the asker to decide. Source: KafkaClient and its ClientResponse in Apache Kafka.
"""

from enum import Enum
from typing import Protocol, TypeAlias

from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message


class PeerFailure(Enum):
    """Why there is no answer."""

    REFUSED = "nobody listens there"
    """The host answered that no process listens at that address: a process that was there has ended."""
    DISCONNECTED = "the connection broke"
    """Before the answer came, or before the connection was up; the request may have been carried out."""
    TIMED_OUT = "no answer in time"
    UNSUPPORTED_VERSION = "the peer serves no version of the request that says what this node wants"


PeerAnswer: TypeAlias = "Message | PeerFailure"


class PeerChannel(Protocol):
    """Requests to other nodes. Implemented by `peers.client.PeerClient`."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, lane: str = ""
    ) -> Delayed[PeerAnswer]:
        """Send ``request`` to the node at ``endpoint``; connect first where there is no connection yet.

        Args:
            endpoint: where the peer listens; a host name is resolved anew for each connection.
            request: sent in the highest version that both sides speak.
            listener: the name of the peer's listener: it decides the security protocol.
            timeout_ms: from now, connecting included.
            lane: requests of one lane to one endpoint share a connection and are answered in order; a fetch that waits
                for records needs a lane of its own.
        """

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        """Find out whether somebody listens at ``endpoint``.

        None when somebody does: known after ``timeout_ms``, for a process that is ending may still seem to listen.
        """

"""What came of a node's sockets, as plain integers: the loop counts, the metrics page reads."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.metrics.registry import Rows, by_label, counter, gauge


@dataclass(slots=True)
class NetworkMetrics:
    """Counters only grow."""

    unread_bytes: int = 0
    """Of answers that are in memory now because their peers have not taken them."""
    closed_unread: Counter[str] = field(default_factory=Counter)
    """Connections whose peers did not take their answers: ``idle`` for too long, or while ``memory`` was short."""
    doors_held: Counter[str] = field(default_factory=Counter)
    """Times that nobody was let in for a moment, for want of descriptors or of room for handshakes; by listener."""

    closed_for_memory: int = 0
    """Connections of clients that were closed because the node came near its limit of memory."""
    unexpected_errors: int = 0
    """Exceptions that no code expected, which cost a connection or a turn of a part of the node."""

    def copy(self) -> "NetworkMetrics":
        """Return what they are now."""
        return replace(self, closed_unread=Counter(self.closed_unread), doors_held=Counter(self.doors_held))


ROWS: Final[Rows[NetworkMetrics]] = (
    gauge(
        "ottla_unread_answer_bytes",
        "Bytes of responses in memory that clients have not read.",
        lambda network: network.unread_bytes,
    ),
    by_label(
        "counter",
        "ottla_connections_closed_unread_total",
        "Connections closed because clients did not read their responses: for too long, or while memory was short.",
        "reason",
        lambda network: {reason: network.closed_unread[reason] for reason in ("idle", "memory")},
    ),
    by_label(
        "counter",
        "ottla_listener_pauses_total",
        "Accept pauses: out of file descriptors or TLS handshake slots.",
        "listener",
        lambda network: dict(sorted(network.doors_held.items())),
    ),
    counter(
        "ottla_connections_closed_for_memory_total",
        "Connections of clients closed because the node came near its limit of memory.",
        lambda network: network.closed_for_memory,
    ),
    counter(
        "ottla_unexpected_errors_total",
        "Unexpected exceptions; each cost a connection, or one run of a part of the node.",
        lambda network: network.unexpected_errors,
    ),
)

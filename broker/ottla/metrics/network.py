"""Counters of a node's sockets, as plain integers: the loop counts, the metrics page reads."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.metrics.loop import LoopMetrics
from ottla.metrics.registry import Rows, by_label, counter, gauge


@dataclass(slots=True)
class NetworkMetrics:
    """Counters only grow."""

    unread_bytes: int = 0
    """Bytes of responses that are in memory now because their peers have not read them."""
    closed_unread: Counter[str] = field(default_factory=Counter)
    """Connections closed because peers did not read responses: ``idle`` for too long, or while ``memory`` was short."""
    accept_pauses: Counter[str] = field(default_factory=Counter)
    """Accept pauses for lack of file descriptors or handshake slots; by listener."""

    closed_for_memory: int = 0
    """Connections of clients that were closed because the node came near its limit of memory."""
    unexpected_errors: int = 0
    """Unexpected exceptions, each of which cost a connection or one run of a part of the node."""
    loop: LoopMetrics = field(default_factory=LoopMetrics)
    """Of the loop that drives the sockets."""

    def copy(self) -> "NetworkMetrics":
        """Return a copy of the counters."""
        return replace(
            self,
            closed_unread=Counter(self.closed_unread),
            accept_pauses=Counter(self.accept_pauses),
            loop=self.loop.copy(),
        )


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
        lambda network: dict(sorted(network.accept_pauses.items())),
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

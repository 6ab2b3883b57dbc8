"""`SECTIONS`: the metric rows of every package with their part of the snapshot, for the page and docs/metrics.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from ottla.admin.snapshot import NodeSnapshot
from ottla.client_metrics import metrics as client_metrics
from ottla.controller import metrics as controller
from ottla.coordinator import metrics as coordinator
from ottla.groups import metrics as groups
from ottla.log import metrics as log
from ottla.metadata import metrics as metadata
from ottla.metrics import loop, tls, traffic
from ottla.metrics import network as sockets
from ottla.metrics.registry import MetricRow, Rows, gauge
from ottla.network import metrics as network
from ottla.raft import metrics as raft
from ottla.replication import metrics as replication
from ottla.security import metrics as security
from ottla.share_partitions import metrics as share_partitions
from ottla.transactions import metrics as transactions

SourceT = TypeVar("SourceT")


class PageSample(NamedTuple):
    """A snapshot, and how long the node's loop took to start on it."""

    snapshot: NodeSnapshot
    loop_delay_s: float


@dataclass(frozen=True, slots=True)
class Section:
    """Rows with one source. ``source`` returns None on a node that does not have the metrics, such as a controller."""

    title: str
    rows: Sequence[MetricRow[Any]]
    source: Callable[[PageSample], Any]


def _section(title: str, rows: Rows[SourceT], source: Callable[[NodeSnapshot], SourceT | None]) -> Section:
    return Section(title, rows, lambda page: source(page.snapshot))


def _of_brokers(title: str, rows: Rows[SourceT], source: Callable[[NodeSnapshot], SourceT]) -> Section:
    return Section(title, rows, lambda page: source(page.snapshot) if page.snapshot.is_broker else None)


_LOOP_ROWS: Final[Rows[float]] = (
    gauge("ottla_loop_delay_seconds", "How long the node's event loop took to start on this page.", lambda it: it),
)

SECTIONS: Final = (
    Section("The event loop", _LOOP_ROWS, lambda page: page.loop_delay_s),
    _section("Iterations of the event loop", loop.ROWS, lambda it: it.network.loop),
    _section("The node", network.STATE_ROWS, lambda it: int(it.state)),
    _section("Connections", network.CONNECTION_ROWS, lambda it: it.connections),
    _section("The network", sockets.ROWS, lambda it: it.network),
    _section("Permissions", security.DENIAL_ROWS, lambda it: it.denials),
    _section("Quotas", security.QUOTA_ROWS, lambda it: it.quotas),
    _section("Requests that wait", replication.PURGATORY_ROWS, lambda it: it.purgatories),
    _section("Fetch sessions", replication.FETCH_SESSION_ROWS, lambda it: it.fetch_sessions),
    _section("Memory of requests", network.REQUEST_MEMORY_ROWS, lambda it: it.request_memory),
    _section("Requests in slices", network.SLICE_ROWS, lambda it: it.slices),
    _section("TLS", tls.ROWS, lambda it: it.tls),
    _section("SASL", network.AUTHENTICATION_ROWS, lambda it: it.authentication),
    _section("The metadata quorum", raft.ROWS, lambda it: it.quorum),
    _section("Metadata", metadata.ROWS, lambda it: it.metadata),
    _section("Requests", network.REQUEST_ROWS, lambda it: it.requests),
    _of_brokers("Traffic of topics", traffic.ROWS, lambda it: it.traffic),
    _of_brokers("Replicas", replication.REPLICA_ROWS, lambda it: it.replicas),
    _of_brokers("Logs", log.LOG_ROWS, lambda it: [each.log for each in it.partitions]),
    _of_brokers("Log directories", log.DIRECTORY_ROWS, lambda it: it.directories),
    _of_brokers("Compaction", log.CLEANER_ROWS, lambda it: it.cleaner),
    _of_brokers("Coordinators", coordinator.ROWS, lambda it: it.coordinators),
    _of_brokers("Groups", groups.ROWS, lambda it: it.groups),
    _of_brokers("Share groups", share_partitions.ROWS, lambda it: it.share),
    _of_brokers("Transactions", transactions.ROWS, lambda it: it.transactions),
    _of_brokers("Client metrics", client_metrics.ROWS, lambda it: it.client_metrics),
    _of_brokers("Replication", replication.REPLICATION_ROWS, lambda it: it.replication),
    _section("The controller", controller.ROWS, lambda it: it.controller),
)

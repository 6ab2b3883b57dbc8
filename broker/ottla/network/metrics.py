"""Metrics of connections and requests: open connections, memory of requests, SASL authentication, counts by API."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.handlers.services import Services
from ottla.metrics.registry import MetricRow, Rows, Samples, counter, gauge
from ottla.network.connection_manager import ConnectionManager

_SOCKET_SERVER: Final = "kafka_server_socket_server_metrics"
_MEMORY_POOL: Final = "kafka_network_socketserver_memorypool"
_REQUESTS: Final = "kafka_network_requestmetrics"


class ConnectionSample(NamedTuple):
    """Connections of all listeners; counters start with the process."""

    open_by_listener: dict[str, int]
    accepted: int
    rejected: int
    closed_for_errors: int
    closed_idle: int
    muted: int


class RequestMemorySample(NamedTuple):
    """Memory of clients' incoming requests, and the effects of its limit."""

    limit_bytes: int
    held_bytes: int
    connections_waiting: int
    waits: int
    connections_closed: int
    work_bytes: int
    """Held by work off the loop."""
    work_waits: int


class SliceSample(NamedTuple):
    """Requests that run in slices, and those with very many entries among them."""

    in_progress: int
    slices: int
    large_waiting: int
    large_waits: int


class AuthenticationSample(NamedTuple):
    """Results of SASL authentication, by listener and mechanism; the mechanism is empty if none was chosen."""

    successes: dict[tuple[str, str], int]
    failures: dict[tuple[str, str], int]
    renewals: dict[tuple[str, str], int]
    open_exchanges: int
    timed_out: int
    expired_sessions: int
    held_bytes: int
    waits: int


class RequestSample(NamedTuple):
    """One API in one version on one kind of listener."""

    api: str
    version: int
    requests: int
    errors: int
    total_time_ms: int
    request_bytes: int
    response_bytes: int


def sample_connections(connections: ConnectionManager) -> ConnectionSample:
    return ConnectionSample(
        dict(connections.open_by_listener),
        connections.accepted_total,
        connections.rejected,
        connections.closed_for_protocol_errors,
        connections.closed_idle,
        connections.muted,
    )


def sample_request_memory(connections: ConnectionManager, services: Services) -> RequestMemorySample:
    return RequestMemorySample(
        connections.memories.clients.limit_bytes,
        connections.memories.clients.held_bytes,
        connections.memories.clients.waiter_count,
        connections.memories.clients.waits,
        connections.memories.closed_as_slow,
        services.work_memory.held_bytes,
        services.work_memory.waits,
    )


def sample_slices(connections: ConnectionManager) -> SliceSample:
    return SliceSample(
        len(connections.steps),
        connections.steps.slices,
        len(connections.large_requests),
        connections.large_requests.waits,
    )


def sample_authentication(connections: ConnectionManager) -> AuthenticationSample:
    authentication = connections.authentication
    counters = sorted(authentication.counters.items())
    return AuthenticationSample(
        {place: each.successes for place, each in counters},
        {place: each.failures for place, each in counters},
        {place: each.renewals for place, each in counters},
        len(authentication),
        authentication.timed_out,
        authentication.expired_sessions,
        *connections.memories.unauthenticated_use,
    )


def sample_requests(connections: ConnectionManager) -> list[RequestSample]:
    return [
        RequestSample(
            route.api_name,
            route.version,
            route.requests,
            route.errors,
            route.total_time_ms,
            route.request_bytes,
            route.response_bytes,
        )
        for route in connections.routes
    ]


CONNECTION_ROWS: Final[Rows[ConnectionSample]] = (
    MetricRow(
        f"{_SOCKET_SERVER}_connection_count",
        "gauge",
        "Open connections.",
        ("listener", "networkProcessor"),
        lambda it: (((name, "0"), count) for name, count in sorted(it.open_by_listener.items())),
    ),
    counter(f"{_SOCKET_SERVER}_connection_creation_total", "Connections accepted.", lambda it: it.accepted),
    counter("ottla_connections_refused_total", "Connections rejected by a limit.", lambda it: it.rejected),
    counter(
        "ottla_connections_closed_for_errors_total",
        "Connections closed because of invalid requests.",
        lambda it: it.closed_for_errors,
    ),
    counter(
        "ottla_connections_closed_idle_total",
        "Connections closed because they were silent for too long.",
        lambda it: it.closed_idle,
    ),
    gauge("ottla_connections_muted", "Connections that are not read because of a quota.", lambda it: it.muted),
)

REQUEST_MEMORY_ROWS: Final[Rows[RequestMemorySample]] = (
    gauge(f"{_MEMORY_POOL}used", "Bytes held by incoming requests.", lambda memory: memory.held_bytes),
    gauge(
        f"{_MEMORY_POOL}available",
        "Bytes left for incoming requests (queued.max.request.bytes); below 0 while one is larger than its share.",
        lambda memory: memory.limit_bytes - memory.held_bytes,
    ),
    gauge(
        "ottla_connections_waiting_for_memory",
        "Connections that are not read: there is no memory for their request.",
        lambda memory: memory.connections_waiting,
    ),
    counter("ottla_waits_for_memory_total", "Requests that had to wait for memory.", lambda memory: memory.waits),
    counter(
        "ottla_connections_closed_for_slow_requests_total",
        "Connections closed because they sent requests too slowly while others waited for memory.",
        lambda memory: memory.connections_closed,
    ),
    gauge(
        "ottla_work_memory_bytes",
        "Bytes that work off the loop holds, such as decompression.",
        lambda memory: memory.work_bytes,
    ),
    counter(
        "ottla_waits_for_work_memory_total",
        "Work off the loop that had to wait for memory.",
        lambda memory: memory.work_waits,
    ),
)

SLICE_ROWS: Final[Rows[SliceSample]] = (
    gauge("ottla_requests_in_slices", "Requests that are handled a slice at a time.", lambda it: it.in_progress),
    counter("ottla_request_slices_total", "Slices of requests that were run between others.", lambda it: it.slices),
    gauge(
        "ottla_large_requests_waiting",
        "Requests and responses with more than 1,000 entries that wait until others of their kind are done.",
        lambda it: it.large_waiting,
    ),
    counter(
        "ottla_large_request_waits_total",
        "Requests and responses that had to wait for that.",
        lambda it: it.large_waits,
    ),
)


def _by_mechanism(
    name: str, help_text: str, counts: Callable[[AuthenticationSample], dict[tuple[str, str], int]]
) -> MetricRow[AuthenticationSample]:
    full_name = f"{_SOCKET_SERVER}_{name}_total"
    return MetricRow(full_name, "counter", help_text, ("listener", "mechanism"), lambda it: counts(it).items())


AUTHENTICATION_ROWS: Final[Rows[AuthenticationSample]] = (
    _by_mechanism("successful_authentication", "SASL authentications that succeeded.", lambda it: it.successes),
    _by_mechanism("failed_authentication", "SASL authentications and renewals that failed.", lambda it: it.failures),
    _by_mechanism("successful_reauthentication", "SASL authentications that were renewed.", lambda it: it.renewals),
    counter(
        f"{_SOCKET_SERVER}_expired_connections_killed_total",
        "Connections closed because their SASL session was over.",
        lambda it: it.expired_sessions,
    ),
    gauge("ottla_sasl_logins_open", "Connections that are not authenticated yet.", lambda it: it.open_exchanges),
    gauge(
        "ottla_sasl_login_memory_bytes",
        "Bytes held by frames that arrive before authentication.",
        lambda it: it.held_bytes,
    ),
    counter(
        "ottla_waits_for_sasl_login_memory_total",
        "Frames before authentication that had to wait for memory.",
        lambda it: it.waits,
    ),
    counter("ottla_sasl_logins_timed_out_total", "SASL authentications that took too long.", lambda it: it.timed_out),
)


def _of_each_api(
    name: str, help_text: str, value: Callable[[RequestSample], int]
) -> MetricRow[Sequence[RequestSample]]:
    def samples(requests: Sequence[RequestSample]) -> Samples:
        for api in sorted({one.api for one in requests}):
            yield (api,), sum(value(one) for one in requests if one.api == api)

    return MetricRow(name, "counter", help_text, ("request",), samples)


REQUEST_ROWS: Final[Rows[Sequence[RequestSample]]] = (
    MetricRow(
        f"{_REQUESTS}_requests_total",
        "counter",
        "Requests received.",
        ("request", "version"),
        lambda requests: (((one.api, str(one.version)), one.requests) for one in requests),
    ),
    _of_each_api(f"{_REQUESTS}_totaltimems_count", "Requests received.", lambda one: one.requests),
    _of_each_api(
        f"{_REQUESTS}_totaltimems_sum", "Milliseconds from request to response.", lambda one: one.total_time_ms
    ),
    _of_each_api(f"{_REQUESTS}_requestbytes_sum", "Bytes of requests.", lambda one: one.request_bytes),
    _of_each_api("ottla_response_bytes_total", "Bytes of responses.", lambda one: one.response_bytes),
    _of_each_api("ottla_failed_requests_total", "Requests rejected as a whole.", lambda one: one.errors),
)

STATE_ROWS: Final[Rows[int]] = (
    gauge("kafka_server_kafkaserver_brokerstate", "State of the broker; 3 is running.", lambda state: state),
)

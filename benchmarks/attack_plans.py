"""Plans of the attacks, by name: listener, kind of peer, rate, and the metrics that show the attack."""

from dataclasses import dataclass
from typing import Final

from benchmarks import large_requests
from benchmarks.attack_peers import (
    LOAD_TOPIC,
    WIDE_TOPIC,
    Everything,
    FullHandshake,
    HalfLogin,
    HelloOnly,
    Idle,
    Peer,
    Pipelined,
    Repeated,
    SecuredIdle,
    SlowFrame,
    UnreadMetadata,
    UnreadRecords,
    Visit,
    WrongPassword,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An attack: its listener, kind of peer, concurrent connections, and new ones per second."""

    title: str
    peer: type[Peer]
    listener: str = "plaintext"
    open_max: int
    rate_per_s: int
    topic: str | None = None
    """The topic of its requests."""
    is_standing: bool = False
    """Whether open connections are the attack, not their creation."""
    large_request: str | None = None
    """Its peers' request, of `large_requests.REQUESTS`."""
    metrics: tuple[str, ...]
    """Metrics of the node that show it."""


PLANS: Final = {
    **{
        name: Plan(
            title=f"10 clients that repeat {request.title}",
            peer=Repeated,
            open_max=10,
            rate_per_s=100,
            is_standing=True,
            large_request=name,
            metrics=("ottla_request_slices_total", "ottla_large_request_waits_total"),
        )
        for name, request in large_requests.REQUESTS.items()
    },
    "idle": Plan(
        title="10,000 idle connections",
        peer=Idle,
        open_max=10_000,
        rate_per_s=2_000,
        is_standing=True,
        metrics=("kafka_server_socket_server_metrics_connection_count",),
    ),
    "idle-tls": Plan(
        title="2,000 idle connections under TLS",
        peer=SecuredIdle,
        listener="tls",
        open_max=2_000,
        rate_per_s=200,
        is_standing=True,
        metrics=("kafka_server_socket_server_metrics_connection_count", "ottla_tls_handshakes_total"),
    ),
    "connections": Plan(
        title="1,000 connections/s",
        peer=Visit,
        open_max=500,
        rate_per_s=1_000,
        metrics=("kafka_server_socket_server_metrics_connection_creation_total",),
    ),
    "slow-frames": Plan(
        title="1,000 frames of 1 MB, a byte a second each",
        peer=SlowFrame,
        open_max=1_000,
        rate_per_s=1_000,
        metrics=(
            "kafka_network_socketserver_memorypoolused",
            "ottla_connections_waiting_for_memory",
            "ottla_waits_for_memory_total",
            "ottla_connections_closed_for_slow_requests_total",
        ),
    ),
    "tls-unfinished": Plan(
        title="1,600 TLS handshakes/s that never finish",
        peer=HelloOnly,
        listener="tls",
        open_max=4_000,
        rate_per_s=1_600,
        metrics=("ottla_tls_handshakes_open", "ottla_tls_handshakes_failed_total", "ottla_listener_pauses_total"),
    ),
    "tls-finished": Plan(
        title="200 TLS handshakes/s",
        peer=FullHandshake,
        listener="tls",
        open_max=500,
        rate_per_s=200,
        metrics=("ottla_tls_handshakes_total",),
    ),
    "wrong-passwords": Plan(
        title="500 wrong passwords/s, for many users",
        peer=WrongPassword,
        listener="sasl",
        open_max=1_000,
        rate_per_s=500,
        metrics=("kafka_server_socket_server_metrics_failed_authentication_total", "ottla_sasl_logins_open"),
    ),
    "half-logins": Plan(
        title="1,000 logins of 512 KiB that never end",
        peer=HalfLogin,
        listener="sasl",
        open_max=1_000,
        rate_per_s=500,
        metrics=("ottla_sasl_logins_open", "ottla_sasl_logins_timed_out_total"),
    ),
    "unread-metadata": Plan(
        title="500 clients that ask for Metadata of 1,000 partitions and never read",
        peer=UnreadMetadata,
        topic=WIDE_TOPIC,
        open_max=500,
        rate_per_s=500,
        metrics=("ottla_unread_answer_bytes", "ottla_connections_closed_unread_total"),
    ),
    "unread-records": Plan(
        title="500 clients that ask for 300 MB of records and never read",
        peer=UnreadRecords,
        topic=LOAD_TOPIC,
        open_max=500,
        rate_per_s=500,
        metrics=("ottla_unread_answer_bytes", "ottla_connections_closed_unread_total"),
    ),
    "pipelined": Plan(
        title="5 clients that send ApiVersions without a pause",
        peer=Pipelined,
        open_max=5,
        rate_per_s=100,
        metrics=("kafka_network_requestmetrics_requests_total",),
    ),
    "everything": Plan(
        title="100 clients that fetch everything at once",
        peer=Everything,
        topic=LOAD_TOPIC,
        open_max=100,
        rate_per_s=100,
        metrics=("kafka_server_brokertopicmetrics_bytesout_total",),
    ),
}

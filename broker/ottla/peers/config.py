"""`PeerClientConfig`: time-outs and limits of requests to other nodes; `reconnect_backoff_ms`."""

from dataclasses import dataclass

from ottla.ports import Random

_JITTER_PERCENT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerClientConfig:
    """Time-outs and limits; the defaults are those of Kafka's own clients between nodes.

    Attributes:
        client_id: name of this node in peers' logs.
        reconnect_backoff_ms: backoff after the first failed attempt; it doubles.
        reconnect_backoff_max_ms: maximum backoff.
        connection_setup_timeout_ms: for connecting, ApiVersions and authentication.
        idle_ms_max: a connection that was idle for so long is closed; below connections.max.idle.ms of peers.
        response_size_bytes_max: a larger response is a protocol error.
    """

    client_id: str = "ottla"
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 500
    connection_setup_timeout_ms: int = 10_000
    idle_ms_max: int = 540_000
    response_size_bytes_max: int = 256 * 1024 * 1024


def reconnect_backoff_ms(config: PeerClientConfig, failed_attempts: int, random: Random) -> int:
    """Return the exponential backoff after ``failed_attempts`` in a row, with jitter."""
    backoff_ms = min(config.reconnect_backoff_ms << min(failed_attempts - 1, 16), config.reconnect_backoff_max_ms)
    jitter_ms = backoff_ms * _JITTER_PERCENT // 100
    return backoff_ms - jitter_ms + random.randrange(2 * jitter_ms + 1)

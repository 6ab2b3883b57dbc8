"""Counters of TLS on one node, as plain integers: the loop counts, the metrics page reads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.metrics.registry import Rows, by_label, counter, gauge


@dataclass(slots=True)
class TlsMetrics:
    """Counters only grow. Outgoing connections to a listener are counted under its name, like incoming ones."""

    handshakes: Counter[str] = field(default_factory=Counter)
    """Finished, by listener."""
    failed_handshakes: Counter[str] = field(default_factory=Counter)
    """Rejected by either side, disconnected, or not finished in time; by listener."""
    open_handshakes: int = 0
    """In progress now."""
    reloads: int = 0
    failed_reloads: int = 0
    """Certificates that changed and could not be used."""
    certificates_expire_at_ms: dict[str, int] = field(default_factory=dict)
    """The earliest expiry in a listener's certificate chain, by listener; Unix time."""


class TlsSample(NamedTuple):
    """A copy of the TLS counters; dictionaries are by listener."""

    handshakes: dict[str, int]
    failed_handshakes: dict[str, int]
    open_handshakes: int
    reloads: int
    failed_reloads: int
    certificates_end_in_ms: dict[str, int]


def sample_tls(metrics: TlsMetrics, now_ms: int) -> TlsSample:
    """Return copies of the counters; ``now_ms`` is the wall clock's."""
    return TlsSample(
        dict(metrics.handshakes),
        dict(metrics.failed_handshakes),
        metrics.open_handshakes,
        metrics.reloads,
        metrics.failed_reloads,
        {listener: ends_ms - now_ms for listener, ends_ms in metrics.certificates_expire_at_ms.items()},
    )


def _sorted(counts: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(counts.items()))


ROWS: Final[Rows[TlsSample]] = (
    by_label(
        "counter",
        "ottla_tls_handshakes_total",
        "TLS handshakes that succeeded.",
        "listener",
        lambda tls: _sorted(tls.handshakes),
    ),
    by_label(
        "counter",
        "ottla_tls_handshakes_failed_total",
        "TLS handshakes that either side rejected, or that did not finish in time.",
        "listener",
        lambda tls: _sorted(tls.failed_handshakes),
    ),
    gauge("ottla_tls_handshakes_open", "TLS handshakes under way.", lambda tls: tls.open_handshakes),
    counter("ottla_tls_reloads_total", "Times that a listener took new certificates.", lambda tls: tls.reloads),
    counter(
        "ottla_tls_failed_reloads_total", "New certificates that could not be used.", lambda tls: tls.failed_reloads
    ),
    by_label(
        "gauge",
        "ottla_tls_certificate_ends_in_seconds",
        "Time until the first certificate of a listener's chain ends; below 0 after that.",
        "listener",
        lambda tls: _sorted({name: ends_ms / 1000 for name, ends_ms in tls.certificates_end_in_ms.items()}),
    ),
)

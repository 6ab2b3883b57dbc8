"""The metrics of permissions and quotas."""

from typing import Final, NamedTuple

from ottla.metrics.registry import MetricRow, Rows, by_label
from ottla.security.denials import Denials
from ottla.security.quotas.throttles import Throttles


class QuotaSample(NamedTuple):
    """Effects of quotas, by the key of the quota."""

    throttles: dict[str, tuple[int, int]]
    """How often, and for how many ms in all, clients were throttled."""
    measurements: dict[str, int]


def sample_denials(denials: Denials) -> dict[tuple[str, str], int]:
    """Return how often an operation on a kind of resource was denied."""
    return {
        (operation.name, resource_type.name): count
        for (operation, resource_type), count in sorted(denials.counts.items())
    }


def sample_throttles(throttles: Throttles) -> dict[str, tuple[int, int]]:
    return {kind: (counters.count, counters.time_ms) for kind, counters in throttles.by_kind.items()}


DENIAL_ROWS: Final[Rows[dict[tuple[str, str], int]]] = (
    MetricRow(
        "ottla_authorization_denials_total",
        "counter",
        "Operations denied for lack of a permission.",
        ("operation", "resource"),
        lambda denials: denials.items(),
    ),
)

QUOTA_ROWS: Final[Rows[QuotaSample]] = (
    by_label(
        "counter",
        "ottla_throttles_total",
        "Requests and connections that a quota throttled.",
        "quota",
        lambda quotas: {kind: count for kind, (count, _) in quotas.throttles.items()},
    ),
    by_label(
        "counter",
        "ottla_throttle_seconds_total",
        "For how long quotas throttled clients, in all.",
        "quota",
        lambda quotas: {kind: time_ms / 1000 for kind, (_, time_ms) in quotas.throttles.items()},
    ),
    by_label(
        "gauge",
        "ottla_quota_measurements",
        "Clients and addresses whose use is measured because they have a limit.",
        "quota",
        lambda quotas: quotas.measurements,
    ),
)

"""The metrics of client metrics: of this node's share in them, and what clients pushed."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.client_metrics.manager import ClientMetricsManager
from ottla.client_metrics.pushed import PushedSeries, Series
from ottla.metrics.registry import MetricRow, Rows, Samples, counter, gauge


class ClientMetricsSample(NamedTuple):
    """Counters, and copies of what clients pushed."""

    instances: int
    throttled: int
    unknown_subscriptions: int
    pushes: int
    failed_pushes: int
    dropped_values: int
    pushed: list[PushedSeries]


def sample_client_metrics(manager: ClientMetricsManager) -> ClientMetricsSample:
    """Return the counters; `copy_pushed` adds the series."""
    return ClientMetricsSample(
        len(manager),
        manager.throttled,
        manager.unknown_subscriptions,
        manager.pushes,
        manager.failed_pushes,
        manager.dropped_values,
        [],
    )


def copy_pushed(manager: ClientMetricsManager, into: list[PushedSeries]) -> Iterator[None]:
    """Copy the series of each client, one client at a time: the admin thread reads the copies."""
    for pushed in manager.pushed():
        into.append(pushed.copy())
        yield


def _samples(pushed: list[PushedSeries], series_of: str) -> Samples:
    for each in pushed:
        series: Series = getattr(each, series_of)
        for key, value in series.items():
            yield (each.labels.client_instance_id, each.labels.client_id, *key), value


_SERIES_LABELS: Final = ("client_instance_id", "client_id", "metric", "attributes")

ROWS: Final[Rows[ClientMetricsSample]] = (
    gauge("ottla_client_instances", "Clients that take part in client metrics.", lambda it: it.instances),
    counter(
        "ottla_client_metrics_throttled_total",
        "Requests of clients that came before their interval was over, or while too many pushes waited.",
        lambda it: it.throttled,
    ),
    counter(
        "ottla_client_metrics_unknown_subscriptions_total",
        "Pushes for another subscription than the client's present one.",
        lambda it: it.unknown_subscriptions,
    ),
    counter("ottla_client_metrics_pushes_total", "Pushes that the receivers were given.", lambda it: it.pushes),
    counter(
        "ottla_client_metrics_failed_pushes_total",
        "Pushes that could not be decompressed or decoded.",
        lambda it: it.failed_pushes,
    ),
    counter(
        "ottla_client_metrics_dropped_values_total",
        "Pushed values that were dropped: beyond the limits of series, or no step of a counter.",
        lambda it: it.dropped_values,
    ),
    MetricRow(
        "ottla_client_info",
        "gauge",
        "A client whose metrics follow, 1 for each.",
        (
            "client_instance_id",
            "client_id",
            "client_software_name",
            "client_software_version",
            "client_source_address",
            "principal",
        ),
        lambda it: [(each.labels, 1) for each in it.pushed],
    ),
    MetricRow(
        "ottla_client_counter_total",
        "counter",
        "A counter that a client pushed; its name is a label.",
        _SERIES_LABELS,
        lambda it: _samples(it.pushed, "counters"),
    ),
    MetricRow(
        "ottla_client_gauge",
        "gauge",
        "A gauge that a client pushed; its name is a label.",
        _SERIES_LABELS,
        lambda it: _samples(it.pushed, "gauges"),
    ),
)

"""`PushedSeries`: what one client has pushed, as counters and gauges of bounded number; the log line about a push.

Clients send counters as differences (delta temporality), so they are added up here. Strings of clients are truncated,
and only ever become values of labels: no client can name a metric of the page.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla.client_metrics.otlp import Point
from ottla.quoting import escape_unprintable, quoted
from ottla.types import Uuid, format_uuid

SERIES_PER_CLIENT_MAX: Final = 500
"""A Java producer with all metrics has some 150, and 12 for each broker and topic."""
LABEL_CHARACTERS_MAX: Final = 200
_LOGGED_SERIES_MAX: Final = 50


class ClientLabels(NamedTuple):
    """Who pushed: truncated strings of the client, its address, and its authenticated principal."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    principal: str


class SeriesKey(NamedTuple):
    """``attributes`` is written ``key=value,key=value``, in the client's order."""

    metric: str
    attributes: str


Series: TypeAlias = Mapping[SeriesKey, float]


def label(text: str) -> str:
    """Return a client's string as the value of a label: printable and truncated."""
    return escape_unprintable(text[:LABEL_CHARACTERS_MAX])[:LABEL_CHARACTERS_MAX]


class PushedSeries:
    """See the module; one per client instance.

    Attributes:
        labels: of the client.
        counters, gauges: the newest numbers.
    """

    __slots__ = ("counters", "gauges", "labels")

    def __init__(self, labels: ClientLabels) -> None:
        self.labels = labels
        self.counters: dict[SeriesKey, float] = {}
        self.gauges: dict[SeriesKey, float] = {}

    def __len__(self) -> int:
        return len(self.counters) + len(self.gauges)

    def copy(self) -> "PushedSeries":
        """Return a copy for another thread."""
        copied = PushedSeries(self.labels)
        copied.counters, copied.gauges = dict(self.counters), dict(self.gauges)
        return copied

    def apply(self, point: Point, *, series_left: int) -> int:
        """Note a point; return how many new series that took, 0 or 1, or -1 if it was dropped.

        ``series_left``: how many the whole node has capacity for. Counters drop negative and infinite steps.
        """
        attributes = ",".join(f"{key}={value}" for key, value in point.attributes)
        key = SeriesKey(label(point.metric), label(attributes))
        series = self.counters if point.is_counter else self.gauges
        known = series.get(key)
        if known is None and (series_left <= 0 or len(self) >= SERIES_PER_CLIENT_MAX):
            return -1
        if point.is_counter and not (math.isfinite(point.value) and point.value >= 0):
            return -1
        series[key] = point.value + (known or 0.0) if point.is_delta else point.value
        return 1 if known is None else 0


def describe_push(instance_id: Uuid, labels: ClientLabels, points: Iterable[Point]) -> str:
    """Return one line about a push, of bounded length, with the client's strings quoted."""
    listed = list(points)
    shown = ", ".join(
        f"{_plain(point.metric)}{{{_plain(','.join(f'{key}={value}' for key, value in point.attributes))}}}="
        f"{point.value:g}{' (delta)' if point.is_delta else ''}"
        for point in listed[:_LOGGED_SERIES_MAX]
    )
    rest = len(listed) - _LOGGED_SERIES_MAX
    return (
        f"client instance {format_uuid(instance_id)} ({quoted(labels.client_id)} at {labels.client_source_address}, "
        f"{labels.principal}) pushed {len(listed)} values: {shown}{f', and {rest} more' if rest > 0 else ''}"
    )


def _plain(text: str) -> str:
    return quoted(text)[1:-1]

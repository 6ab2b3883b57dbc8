"""`MetricRow`: one metric of the page, declared by the package that counts it.

A metric is added as a row in the ``metrics.py`` of its package: name, type, help, labels, and a function that reads its
samples from the package's source. ``ottla.admin.metrics`` lists the packages' rows; the page iterates over them, and
docs/metrics.md is generated from them. Names are those of the JMX exporter for Kafka's metrics; metrics that Kafka
does not have start with ``ottla_``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

SourceT = TypeVar("SourceT")
Kind: TypeAlias = Literal["counter", "gauge", "unknown"]
Samples: TypeAlias = Iterable[tuple[tuple[str | None, ...], float]]
"""Values of the labels, None for a label that this sample does not have, and the number."""


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[SourceT]):
    """See the module. ``help`` is for the page and docs/metrics.md; a counter's name ends as Kafka's does."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Callable[[SourceT], Samples]


Rows: TypeAlias = tuple[MetricRow[SourceT], ...]


def gauge(name: str, help_text: str, value: Callable[[SourceT], float]) -> MetricRow[SourceT]:
    """Return a metric without labels that goes up and down."""
    return MetricRow(name, "gauge", help_text, (), lambda source: [((), value(source))])


def counter(name: str, help_text: str, value: Callable[[SourceT], float]) -> MetricRow[SourceT]:
    """Return a metric without labels that only grows."""
    return MetricRow(name, "counter", help_text, (), lambda source: [((), value(source))])


def by_label(
    kind: Kind, name: str, help_text: str, label: str, values: Callable[[SourceT], Mapping[str, float]]
) -> MetricRow[SourceT]:
    """Return a metric with one label; ``values`` has a number for each of its values."""
    return MetricRow(
        name, kind, help_text, (label,), lambda source: [((each,), number) for each, number in values(source).items()]
    )

"""A snapshot as Prometheus metrics, under the names that the JMX exporter gives to Kafka's.

The names are those of Strimzi's rules for the exporter (``kafka_<domain>_<type>_<name>``, in lower case, meters as
``_total``), so that dashboards and alerts written for Kafka work. The rows are the packages' (`ottla.admin.metrics`).
"""

from collections.abc import Iterator
from typing import TypeVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector

from ottla.admin.metrics import SECTIONS, PageSample
from ottla.admin.snapshot import NodeSnapshot
from ottla.metrics.registry import MetricRow

SourceT = TypeVar("SourceT")


class MetricsPage(CollectorRegistry):
    """The registry that prometheus-client's encoders read: the node's families, then the process's."""

    def __init__(self, snapshot: NodeSnapshot, *, loop_delay_s: float) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._loop_delay_s = loop_delay_s
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        yield from node_metrics(self._snapshot, loop_delay_s=self._loop_delay_s)
        yield from self._process.collect()


def node_metrics(snapshot: NodeSnapshot, *, loop_delay_s: float) -> Iterator[Metric]:
    """Yield every family of a node.

    ``loop_delay_s``: how long the node's event loop took to run the page's first call.
    """
    page = PageSample(snapshot, loop_delay_s)
    for section in SECTIONS:
        source = section.source(page)
        if source is not None:
            for row in section.rows:
                yield family_of(row, source)


def family_of(row: MetricRow[SourceT], source: SourceT) -> Metric:
    """Return a row's family with its samples."""
    family = Metric(row.name.removesuffix("_total") if row.kind == "counter" else row.name, row.help, row.kind)
    for values, number in row.samples(source):
        labels = {name: value for name, value in zip(row.labels, values, strict=True) if value is not None}
        family.add_sample(row.name, labels, number)
    return family

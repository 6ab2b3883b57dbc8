"""Prometheus metrics of each Cluster that this operator owns, from the last status that it wrote."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import ObjectKey

_CLUSTER = ("namespace", "cluster")


class ClusterMetrics(Collector):
    """The statuses as metric families, built at each scrape: a removed Cluster leaves no series."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._statuses: dict[ObjectKey, Document] = {}
        self._succeeded_s: dict[ObjectKey, float] = {}

    def observe_status(self, key: ObjectKey, status: Document) -> None:
        """Record the status of an object; only Clusters are kept."""
        if key.kind == "Cluster":
            self._statuses[key] = status

    def observe_success(self, key: ObjectKey) -> None:
        """Record that the object matches its spec."""
        if key.kind == "Cluster":
            self._succeeded_s[key] = self._now_s()

    def remove(self, key: ObjectKey) -> None:
        self._statuses.pop(key, None)
        self._succeeded_s.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        """Yield every family, without samples if there are none."""
        yield self._conditions()
        succeeded = _family("cluster_last_success_timestamp_seconds", "When the Cluster last matched its spec.")
        for key, success_s in sorted(self._succeeded_s.items()):
            succeeded.add_metric(_labels(key), success_s)
        yield succeeded
        yield from self._operations()
        expiry = _family(
            "certificate_expiry_timestamp_seconds", "When a certificate of the Cluster expires.", "certificate"
        )
        for key, status in sorted(self._statuses.items()):
            for it in status.get("certificates", ()):
                if (at_s := _seconds(it.get("notAfter"))) is not None:
                    expiry.add_metric([*_labels(key), it.get("name", "")], at_s)
        yield expiry

    def _conditions(self) -> Metric:
        family = _family("cluster_condition", "1 if the condition is True, else 0.", "condition")
        for key, status in sorted(self._statuses.items()):
            for it in status.get("conditions", ()):
                family.add_metric([*_labels(key), it["type"]], float(it["status"] == "True"))
        return family

    def _operations(self) -> Iterator[Metric]:
        done = _family("operation_done", "Units that an operation of the Cluster has finished.", "operation")
        total = _family("operation_total", "Units of the operation in total.", "operation")
        blocked = _family("operation_blocked", "1 while it waits for something that its status names.", "operation")
        started = _family("operation_started_timestamp_seconds", "When the operation started.", "operation")
        for key, status in sorted(self._statuses.items()):
            operation = status.get("operation")
            if not operation:
                continue
            labels = [*_labels(key), operation.get("kind", "")]
            done.add_metric(labels, operation.get("done", 0))
            total.add_metric(labels, operation.get("total", 0))
            blocked.add_metric(labels, float(bool(operation.get("blockedBy"))))
            if (at_s := _seconds(operation.get("startedAt"))) is not None:
                started.add_metric(labels, at_s)
        yield from (done, total, blocked, started)


def _family(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ottla_operator_{name}", documentation, labels=[*_CLUSTER, *labels])


def _labels(key: ObjectKey) -> list[str]:
    return [key.namespace, key.name]


def _seconds(text: str | None) -> float | None:
    """Return an RFC 3339 time as seconds since 1970; None without a valid one."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None

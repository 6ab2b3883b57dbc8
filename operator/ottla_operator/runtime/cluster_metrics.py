"""What the operator tells Prometheus about each Cluster that it looks after, from the status that it gave it last."""

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
    """The statuses, as families that are made when they are asked for: what has gone leaves no series behind."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._statuses: dict[ObjectKey, Document] = {}
        self._succeeded_s: dict[ObjectKey, float] = {}

    def saw(self, key: ObjectKey, status: Document) -> None:
        """Take in the status of an object; those of other kinds are not looked at."""
        if key.kind == "Cluster":
            self._statuses[key] = status

    def succeeded(self, key: ObjectKey) -> None:
        """Take in that the object is as it should be."""
        if key.kind == "Cluster":
            self._succeeded_s[key] = self._now_s()

    def forget(self, key: ObjectKey) -> None:
        self._statuses.pop(key, None)
        self._succeeded_s.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        """Yield every family, without samples where there is nothing to say."""
        yield self._conditions()
        succeeded = _family("cluster_last_success_timestamp_seconds", "When the Cluster was last seen to be as asked.")
        for key, success_s in sorted(self._succeeded_s.items()):
            succeeded.add_metric(_labels(key), success_s)
        yield succeeded
        yield from self._operations()
        expiry = _family(
            "certificate_expiry_timestamp_seconds", "When a certificate of the Cluster ends.", "certificate"
        )
        for key, status in sorted(self._statuses.items()):
            for it in status.get("certificates", ()):
                if (at_s := _seconds(it.get("notAfter"))) is not None:
                    expiry.add_metric([*_labels(key), it.get("name", "")], at_s)
        yield expiry

    def _conditions(self) -> Metric:
        family = _family("cluster_condition", "1 where the condition is True, else 0.", "condition")
        for key, status in sorted(self._statuses.items()):
            for it in status.get("conditions", ()):
                family.add_metric([*_labels(key), it["type"]], float(it["status"] == "True"))
        return family

    def _operations(self) -> Iterator[Metric]:
        done = _family("operation_done", "What a long operation of the Cluster has done.", "operation")
        total = _family("operation_total", "What it has to do in all.", "operation")
        blocked = _family("operation_blocked", "1 while it waits for something that its status names.", "operation")
        started = _family("operation_started_timestamp_seconds", "When it began.", "operation")
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
    """Return an RFC 3339 time as seconds since 1970; None where there is none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None

"""Prometheus metrics of the operator itself."""

from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from ottla_operator.adapters.kubernetes.api_calls import ApiCall
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.cluster_metrics import ClusterMetrics

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0)
"""Few buckets, because there is a series for each of them, per verb and resource."""


class OperatorMetrics:
    """The operator's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.clusters = ClusterMetrics()
        self.registry.register(self.clusters)
        self.reconciles = Counter(
            "ottla_operator_reconciles",
            "Reconciliations of objects, by result.",
            ["kind", "verdict"],
            registry=self.registry,
        )
        self.steps = Counter(
            "ottla_operator_steps", "Executed steps of plans, by kind.", ["step"], registry=self.registry
        )
        self.duration_s = Histogram(
            "ottla_operator_reconcile_seconds",
            "Duration of one reconciliation, which may be of several objects.",
            ["kind"],
            registry=self.registry,
        )
        self.last_reconcile = self._gauge(
            "last_reconcile_timestamp_seconds", "When a reconciliation of this kind last started.", "kind"
        )
        self.last_success = self._gauge(
            "last_success_timestamp_seconds", "When an object of this kind last matched its spec.", "kind"
        )
        self.queue_length = self._gauge("queue_length", "Objects that wait for a worker.")
        self.queue_oldest_s = self._gauge(
            "queue_oldest_seconds", "Waiting time of the first object that a worker could take."
        )
        self.leader = self._gauge("leader", "1 on the leader, 0 on a standby.")
        self.watch_age_s = self._gauge(
            "watch_age_seconds", "Time since the watch of a resource last gave a sign of life.", "resource"
        )
        self.watches_open = self._gauge("watches_open", "1 while every watch is open, else 0.")
        self.api_seconds = Histogram(
            "ottla_operator_api_request_seconds",
            "Time to the first byte of the API server's response; without watches.",
            ["verb", "resource"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.api_requests = Counter(
            "ottla_operator_api_requests",
            "Requests to the API server; code 0: no response.",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self._gauge("build_info", "1, with the version of this operator.", "version").labels(_version()).set(1)

    def observe_reconcile(self, key: ObjectKey, *, is_reached: bool) -> None:
        """Record the end of a reconciliation."""
        if is_reached:
            self.last_success.labels(key.kind).set_to_current_time()
            self.clusters.observe_success(key)

    def observe_api_call(self, call: ApiCall) -> None:
        """Record a request to the API server."""
        self.api_requests.labels(call.verb, call.resource, str(call.code)).inc()
        if call.verb != "watch":
            self.api_seconds.labels(call.verb, call.resource).observe(call.seconds)

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(f"ottla_operator_{name}", documentation, labels, registry=self.registry)


def _version() -> str:
    try:
        return metadata.version("ottla")
    except metadata.PackageNotFoundError:
        return "unknown"

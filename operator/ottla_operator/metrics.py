"""What the operator tells Prometheus about itself."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class OperatorMetrics:
    """The operator's series, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "ottla_operator_reconciles",
            "Passes over objects, by what they ended in.",
            ["kind", "verdict"],
            registry=self.registry,
        )
        self.steps = Counter(
            "ottla_operator_steps", "Changes that were made, by kind of step.", ["step"], registry=self.registry
        )
        self.duration_s = Histogram(
            "ottla_operator_reconcile_seconds", "How long one pass takes.", ["kind"], registry=self.registry
        )
        self.last_reconcile = Gauge(
            "ottla_operator_last_reconcile_timestamp_seconds",
            "When a pass over this kind last began.",
            ["kind"],
            registry=self.registry,
        )
        self.queue_length = Gauge(
            "ottla_operator_queue_length", "Objects that wait for a worker.", registry=self.registry
        )
        self.queue_oldest_s = Gauge(
            "ottla_operator_queue_oldest_seconds",
            "How long the first object that could be worked on has been waiting.",
            registry=self.registry,
        )

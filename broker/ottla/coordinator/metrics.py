"""The metrics of the coordinators: the partitions of their internal topics that this broker leads.

Source: CoordinatorRuntimeMetricsImpl of Apache Kafka 4.3, with the names of the JMX exporter; it has none for the
transaction coordinator.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.coordinator.context import ContextState
from ottla.metrics.registry import MetricRow, Rows, by_label

_STATES: Final = {"loading": ContextState.LOADING, "active": ContextState.ACTIVE, "failed": ContextState.CLOSED}


class CoordinatorsSample(NamedTuple):
    """Partitions of each coordinator, by state."""

    groups: Counter[ContextState]
    share_groups: Counter[ContextState]
    transactions: Counter[ContextState]


def _row(
    name: str, topic: str, clients: str, partitions: Callable[[CoordinatorsSample], Counter[ContextState]]
) -> MetricRow[CoordinatorsSample]:
    return by_label(
        "gauge",
        name,
        f"Partitions of {topic} that this broker leads, by state; the {clients} of failed ones have no coordinator.",
        "state",
        lambda sample: {label: partitions(sample)[state] for label, state in _STATES.items()},
    )


ROWS: Final[Rows[CoordinatorsSample]] = (
    _row(
        "kafka_server_group_coordinator_metrics_num_partitions",
        "__consumer_offsets",
        "groups",
        lambda it: it.groups,
    ),
    _row(
        "kafka_server_share_coordinator_metrics_num_partitions",
        "__share_group_state",
        "share groups",
        lambda it: it.share_groups,
    ),
    _row(
        "ottla_transaction_coordinator_partitions",
        "__transaction_state",
        "producers",
        lambda it: it.transactions,
    ),
)

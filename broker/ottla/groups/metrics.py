"""The metrics of the groups that this broker coordinates."""

from collections import Counter
from typing import Final

from ottla.metrics.registry import MetricRow, Rows, gauge

_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"
_STATES: Final = ("Dead", "Empty", "Stable", "PreparingRebalance", "CompletingRebalance")


def _in_state(state: str) -> MetricRow[Counter[str]]:
    return gauge(f"{_GROUPS}{state.lower()}", f"Groups in state {state}.", lambda groups: groups[state])


ROWS: Final[Rows[Counter[str]]] = (
    gauge(_GROUPS, "Groups that this broker coordinates.", lambda groups: groups.total()),
    *map(_in_state, _STATES),
)
"""Of a count of groups by state."""

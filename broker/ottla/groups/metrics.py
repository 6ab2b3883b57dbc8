"""The metrics of the groups that this broker coordinates.

Source: GroupCoordinatorMetrics of Apache Kafka 4.3, with the names of the JMX exporter.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.consumer.state import ConsumerGroupState
from ottla.groups.group_type import GroupType
from ottla.groups.share.state import ShareGroupState
from ottla.groups.streams.state import StreamsGroupState
from ottla.metrics.registry import MetricRow, Rows, Samples, gauge

GroupCounts: TypeAlias = Counter[tuple[str, str]]
"""Groups by type and state, both as ListGroups names them."""

_CLASSIC_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"
_GROUPS: Final = "kafka_server_group_coordinator_metrics"


def _count_of_type(groups: GroupCounts, group_type: str) -> int:
    return sum(count for (each, _), count in groups.items() if each == group_type)


def _classic_in_state(state: ClassicGroupState) -> MetricRow[GroupCounts]:
    return gauge(
        f"{_CLASSIC_GROUPS}{state.lower()}",
        f"Classic groups in state {state}.",
        lambda groups: groups[GroupType.CLASSIC, state],
    )


def _by_state(group_type: str, states: Iterable[StrEnum]) -> MetricRow[GroupCounts]:
    names = [state.value for state in states]

    def samples(groups: GroupCounts) -> Samples:
        return [((name,), groups[group_type, name]) for name in names]

    return MetricRow(
        f"{_GROUPS}_{group_type}_group_count", "gauge", f"Groups of type {group_type}, by state.", ("state",), samples
    )


ROWS: Final[Rows[GroupCounts]] = (
    gauge(
        _CLASSIC_GROUPS,
        "Classic groups that this broker coordinates.",
        lambda it: _count_of_type(it, GroupType.CLASSIC),
    ),
    *map(_classic_in_state, ClassicGroupState),
    MetricRow(
        f"{_GROUPS}_group_count",
        "gauge",
        "Groups that this broker coordinates, by protocol.",
        ("protocol",),
        lambda groups: [((each,), _count_of_type(groups, each)) for each in GroupType],
    ),
    _by_state(GroupType.CONSUMER, ConsumerGroupState),
    _by_state(GroupType.SHARE, ShareGroupState),
    _by_state(GroupType.STREAMS, StreamsGroupState),
)

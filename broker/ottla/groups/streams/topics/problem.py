"""`TopicConfigurationError`: the topics of the cluster do not fit the topology.

Source: TopicConfigurationException of Apache Kafka 4.3.1.
"""

from collections.abc import Sequence
from typing import Final

from ottla.groups.streams.topics.configured import StreamsStatus, TopologyProblem
from ottla.quoting import cut_message, cut_name

_NAMED_MAX: Final = 3


class TopicConfigurationError(Exception):
    """Ends the configuration of a topology, with the problem that its group has then."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(status, detail)
        self.problem = TopologyProblem(status, cut_message(detail))


def summary_of_topics(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    more = len(names) - _NAMED_MAX
    summary = ", ".join(map(cut_name, names[:_NAMED_MAX]))
    return f"{summary} and {more} additional topics" if more > 0 else summary


def incorrectly_partitioned(detail: str) -> TopicConfigurationError:
    return TopicConfigurationError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)

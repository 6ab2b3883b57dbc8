"""The numbers of partitions of repartition topics, derived along the topology.

A number that the client fixed stays. Another repartition topic is written by one subtopology, and gets as many
partitions as the largest topic which that one reads, as soon as one of those is known. So the result depends on the
order in which subtopologies are considered, which in Kafka is that of a hash table, again and again until all numbers
are known.

Here a heap has only the subtopologies of which an input is known, by round and position: the result is the same, and a
chain of 500 subtopologies in the worst order does not need 500 rounds over all of them.

Source: RepartitionTopics of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.streams.topology import Subtopology
from ottla.purgatory.steps import Steps

_TOPICS_PER_STEP: Final = 128


def repartition_partition_counts(
    subtopologies: Sequence[Subtopology], existing: Mapping[str, int]
) -> Steps[dict[str, int]]:
    """Return the number of partitions of each repartition topic that is read or written.

    Args:
        subtopologies: in the order in which Kafka considers them.
        existing: the numbers of partitions of all source topics, at least.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, numbers cannot be derived.
    """
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions
    }
    yield None
    yield from _derive(subtopologies, existing, counts)
    yield None
    for each in subtopologies:
        if not all(sink in counts for sink in each.repartition_sink_topics):
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved.",
            )
    for each in subtopologies:
        if not all(topic.name in counts for topic in each.repartition_source_topics):
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
                "is never used as a sink topic.",
            )
    return counts


def _derive(subtopologies: Sequence[Subtopology], existing: Mapping[str, int], counts: dict[str, int]) -> Steps[None]:
    """Add the numbers of repartition sinks to ``counts``, as far as they can be derived."""
    readers: dict[str, list[int]] = {}
    for position, each in enumerate(subtopologies):
        for topic in each.repartition_source_topics:
            readers.setdefault(topic.name, []).append(position)
    yield None
    ready = [
        (0, position)
        for position, each in enumerate(subtopologies)
        if each.source_topics or any(topic.name in counts for topic in each.repartition_source_topics)
    ]
    heapify(ready)
    yield None
    done: set[int] = set()
    work = 0
    while ready:
        round_number, position = heappop(ready)
        if position in done:
            continue
        done.add(position)
        subtopology = subtopologies[position]
        known = [counts[each.name] for each in subtopology.repartition_source_topics if each.name in counts]
        count = max(*known, *(existing[topic] for topic in subtopology.source_topics), 0)
        for sink in subtopology.repartition_sink_topics:
            if sink in counts:
                continue
            counts[sink] = count
            for reader in readers.get(sink, ()):
                # A subtopology before this one was considered in this round already.
                heappush(ready, (round_number + (reader <= position), reader))
                work += 1
        work += 1 + len(subtopology.source_topics) + len(subtopology.repartition_source_topics)
        if work >= _TOPICS_PER_STEP:
            work = 0
            yield None

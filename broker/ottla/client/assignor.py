"""The range assignor: each topic's partitions, in order, cut into one run per member.

Source: org.apache.kafka.clients.consumer.RangeAssignor (without racks and co-partitioning).
"""

from collections.abc import Mapping, Sequence

from ottla.types import TopicPartition

RANGE = "range"


def assign_ranges(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member.

    Args:
        subscriptions: topics by member id.
        partition_counts: partitions by topic; topics that are missing here do not exist and are not assigned.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic in sorted(partition_counts):
        members = sorted(member for member, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        share, longer = divmod(partition_counts[topic], len(members))
        start = 0
        for index, member in enumerate(members):
            end = start + share + (index < longer)
            assigned[member] += [TopicPartition(topic, partition) for partition in range(start, end)]
            start = end
    return assigned

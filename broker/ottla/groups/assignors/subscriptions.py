"""What several assignors derive from the subscriptions: the subscribers of each topic, and its partitions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.groups.assignors.types import MemberSubscription, PartitionAssignorError
from ottla.purgatory.steps import Steps, batches
from ottla.types import Uuid, format_uuid

_TOPICS_PER_STEP: Final = 512


def subscribers_by_topic(members: Sequence[MemberSubscription]) -> Steps[dict[Uuid, list[int]]]:
    """Return the subscribed members of each topic, as indices in ``members``, ascending."""
    subscribers: defaultdict[Uuid, list[int]] = defaultdict(list)
    for index, member in enumerate(members):
        for topic_ids in batches(member.topic_ids, _TOPICS_PER_STEP):
            # The innermost loop runs once per member and topic, which may be millions of times: it does nothing else.
            for topic_id in topic_ids:
                subscribers[topic_id].append(index)
            yield None
    return subscribers


def partition_count(counts: Mapping[Uuid, int], topic_id: Uuid) -> int:
    """Return the number of partitions of a subscribed topic.

    Raises:
        PartitionAssignorError: it has none.
    """
    count = counts.get(topic_id)
    if count is None:
        raise PartitionAssignorError(f"a member subscribes to topic {format_uuid(topic_id)}, which is unknown")
    return count

"""`RangeAssignor`: each topic in contiguous ranges, so that equal topics are co-partitioned.

The members of a topic are ordered: static members by instance id, then the others by member id. The first
``partitions % members`` of them get one partition more than the others. The current assignment does not count; the
order alone keeps partitions with their members.

Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from ottla.groups.assignors.subscriptions import partition_count, subscribers_by_topic
from ottla.groups.assignors.target import target_assignment
from ottla.groups.assignors.types import (
    Assignment,
    GroupSpec,
    MemberSubscription,
    SubscriptionType,
)
from ottla.java_strings import string_order
from ottla.purgatory.steps import Steps, sorted_in_steps
from ottla.types import Uuid

_SETS_PER_STEP: Final = 256
"""Sets of partitions that are created between two slice points."""


class RangeAssignor:
    """See the module; it has no state."""

    name: Final = "range"

    def assign(self, spec: GroupSpec) -> Steps[Assignment]:
        """See `Assignor.assign`."""
        members = yield from sorted_in_steps(spec.members, key=_order)
        assigned: list[dict[Uuid, frozenset[int]]] = [{} for _ in members]
        subscribers: Mapping[Uuid, Sequence[int]]
        if members and spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            subscribers = dict.fromkeys(members[0].topic_ids, range(len(members)))
        else:
            subscribers = yield from subscribers_by_topic(members)
        sets = 0
        for topic_id, indices in subscribers.items():
            count = partition_count(spec.partition_counts, topic_id)
            quota, extra = divmod(count, len(indices))
            start = 0
            # Without a partition for each, the last members get none.
            for position, index in enumerate(islice(indices, count)):
                end = start + quota + (position < extra)
                assigned[index][topic_id] = frozenset(range(start, end))
                start = end
                sets += 1
                if sets % _SETS_PER_STEP == 0:
                    yield None
        return (yield from target_assignment(members, assigned))


def _order(member: MemberSubscription) -> tuple[bool, bytes]:
    """Return the key of the order among members."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, string_order(name)

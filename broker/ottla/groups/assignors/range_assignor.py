"""`RangeAssignor`: each topic in contiguous ranges, so that equal topics are co-partitioned.

The members of a topic are ordered: static members by instance id, then the others by member id. The first
``partitions % members`` of them get one partition more than the others. The current assignment does not count; the
order alone keeps partitions with their members.

Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from ottla.groups.assignors.types import (
    Assignment,
    GroupSpec,
    MemberSubscription,
    PartitionAssignorError,
    SubscriptionType,
)
from ottla.purgatory.steps import Steps, sorted_in_steps
from ottla.types import Uuid, format_uuid

_SETS_PER_STEP: Final = 256
"""Sets of partitions that are created, or topics of members that are noted, between two slice points."""


class RangeAssignor:
    """See the module; it has no state."""

    name: Final = "range"

    def assign(self, spec: GroupSpec) -> Steps[Assignment]:
        """See `Assignor.assign`."""
        members = yield from sorted_in_steps(spec.members, key=_order)
        assigned: list[dict[Uuid, frozenset[int]]] = [{} for _ in members]
        subscribers = yield from _subscribers(members, spec.subscription_type)
        sets = 0
        for topic_id, indices in subscribers.items():
            count = spec.partition_counts.get(topic_id)
            if count is None:
                raise PartitionAssignorError(f"a member subscribes to topic {format_uuid(topic_id)}, which is unknown")
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
        result: Assignment = {}
        for member, partitions in zip(members, assigned, strict=True):
            result[member.member_id] = member.assigned if member.assigned == partitions else partitions
            sets += 1 + len(partitions)
            if sets >= _SETS_PER_STEP:
                sets = 0
                yield None
        return result


def _order(member: MemberSubscription) -> tuple[bool, bytes]:
    """Return the key of the order among members; Java compares strings by their UTF-16 units."""
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _subscribers(members: Sequence[MemberSubscription], kind: SubscriptionType) -> Steps[dict[Uuid, Sequence[int]]]:
    """Return the subscribed members of each topic, as indices in ``members``, ascending."""
    if kind is SubscriptionType.HOMOGENEOUS:
        return dict.fromkeys(members[0].topic_ids, range(len(members))) if members else {}
    subscribers: dict[Uuid, list[int]] = {}
    noted = 0
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(index)
            noted += 1
            if noted % _SETS_PER_STEP == 0:
                yield None
    return dict(subscribers)

"""`target_assignment`: the end of an assignor whose result does not start from the current assignment."""

from collections.abc import Collection, MutableMapping, Sequence
from typing import Final, TypeVar

from ottla.groups.assignors.types import Assignment, MemberSubscription
from ottla.purgatory.steps import Steps
from ottla.types import Uuid

CollectionT = TypeVar("CollectionT", bound=Collection[int])

_PARTITIONS_PER_STEP: Final = 4096
_PARTITIONS_PER_SET: Final = 16
"""A set takes as long as so many partitions, besides its own."""


def target_assignment(
    members: Sequence[MemberSubscription], partitions: Sequence[MutableMapping[Uuid, CollectionT]]
) -> Steps[Assignment]:
    """Return ``partitions``, which are in the order of ``members`` and are emptied, by member id.

    An assignment that has not changed is the same object as before.
    """
    target: Assignment = {}
    work = 0
    for member, topics in zip(members, partitions, strict=True):
        before = member.assigned
        is_same = len(before) == len(topics)
        result: dict[Uuid, frozenset[int]] = {}
        for topic_id, each in topics.items():
            result[topic_id] = own = frozenset(each)
            is_same = is_same and before.get(topic_id) == own
            work += _PARTITIONS_PER_SET + len(own)
            if work >= _PARTITIONS_PER_STEP:
                work = 0
                yield None
        target[member.member_id] = before if is_same else result
        # Half a million sets that are freed together at the end would take 9 ms.
        topics.clear()
        work += _PARTITIONS_PER_SET
        if work >= _PARTITIONS_PER_STEP:
            work = 0
            yield None
    return target

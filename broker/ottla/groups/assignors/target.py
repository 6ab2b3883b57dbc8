"""`target_assignment`: the end of an assignor whose result does not start from the current assignment."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla.groups.assignors.types import Assignment, MemberSubscription
from ottla.purgatory.steps import Steps
from ottla.types import Uuid

_SETS_PER_STEP: Final = 256


def target_assignment(
    members: Sequence[MemberSubscription], partitions: Sequence[Mapping[Uuid, Collection[int]]]
) -> Steps[Assignment]:
    """Return ``partitions``, which are in the order of ``members``, by member id.

    An assignment that has not changed is the same object as before.
    """
    target: Assignment = {}
    sets = 0
    for member, topics in zip(members, partitions, strict=True):
        result = {topic_id: frozenset(each) for topic_id, each in topics.items()}
        target[member.member_id] = member.assigned if member.assigned == result else result
        sets += 1 + len(result)
        if sets >= _SETS_PER_STEP:
            sets = 0
            yield None
    return target

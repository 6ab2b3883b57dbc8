"""`LoadBalancer`: the order in which a topic's subscribers receive and give up partitions.

Source: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer of Apache Kafka 4.3.1.
"""

from collections.abc import Sequence
from typing import Final

from ottla.purgatory.steps import Steps, sorted_in_steps

_SORTED_PER_STEP: Final = 2048
"""Integers, which are sorted in a quarter of a millisecond."""


def sorted_by_load(loads: Sequence[int], members: Sequence[int]) -> Steps[list[int]]:
    """Return ``members`` by ascending load, then ascending index."""
    base = len(loads)
    # One integer holds both: tuples take twice as long.
    keys = yield from sorted_in_steps([loads[index] * base + index for index in members], per_step=_SORTED_PER_STEP)
    return [key % base for key in keys]


class LoadBalancer:
    """Two ranges of the sorted members: the least loaded ones at the start, the most loaded ones at the end.

    All members of a range started with the same load. A range is served round-robin; after each round its load has
    changed by one, and adjacent members of that load join it. The caller changes ``loads`` after each call, as it moves
    partitions.
    """

    __slots__ = (
        "_least_end",
        "_least_load",
        "_least_next",
        "_loads",
        "_members",
        "_most_end",
        "_most_load",
        "_most_next",
        "_most_start",
    )

    def __init__(self, loads: list[int], members: list[int]) -> None:
        """``members`` are at least one, as `sorted_by_load` returns them; they belong to the balancer."""
        self._loads = loads
        self._members = members
        self._least_end = 0
        self._least_load = loads[members[0]] - 1
        self._least_next = 0
        self._most_start = self._most_end = len(members)
        self._most_load = loads[members[-1]] + 1
        self._most_next = len(members) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether the loads of the two ranges differ by at most one."""
        return self._most_load - self._least_load <= 1

    def next_least_loaded(self) -> int:
        """Return the member that receives the next partition."""
        members, loads = self._members, self._loads
        if self._least_next >= self._least_end:
            self._least_load += 1
            while self._least_end < len(members) and loads[members[self._least_end]] == self._least_load:
                self._least_end += 1
            self._least_next = 0
        member = members[self._least_next]
        self._least_next += 1
        return member

    def next_most_loaded(self) -> int | None:
        """Return the member that gives up the next partition, or None if no member can."""
        members, loads = self._members, self._loads
        if self._most_next < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                # All members of the range were excluded: continue with the load of the next member, whatever it is.
                self._most_load = loads[members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while self._most_start > 0 and loads[members[self._most_start - 1]] == self._most_load:
                self._most_start -= 1
            self._most_next = self._most_end - 1
        if self._most_next < 0:
            return None
        member = members[self._most_next]
        self._most_next -= 1
        return member

    def exclude_most_loaded(self) -> None:
        """Remove the member of the last `next_most_loaded`, which has no partition to give up, from the range."""
        members, at, last = self._members, self._most_next + 1, self._most_end - 1
        members[at], members[last] = members[last], members[at]
        self._most_end = last

"""Which brokers shall hold a partition: the smallest change of an assignment, the load spread evenly. Pure.

Order matters: the first replica is the preferred leader.
"""

from collections.abc import Collection, Iterable, Sequence

from ottla_operator.reconcile.view import PartitionView

MOVES_MAX = 100
"""Partitions on the move at the same time: each is a copy that others' clients feel."""


class Load:
    """How many replicas each broker has, and will have; ties go to the lower id."""

    def __init__(self, brokers: Iterable[int], partitions: Iterable[PartitionView]) -> None:
        self._replicas = dict.fromkeys(sorted(brokers), 0)
        for partition in partitions:
            for node in partition.target:
                self.add(node)

    def add(self, node: int) -> None:
        if node in self._replicas:
            self._replicas[node] += 1

    def least(self, excluded: Collection[int]) -> int | None:
        """Return the broker with the fewest replicas; None when all are excluded."""
        candidates = [node for node in self._replicas if node not in excluded]
        return min(candidates, key=lambda node: (self._replicas[node], node), default=None)


def without(replicas: Sequence[int], leaving: Collection[int], load: Load) -> tuple[int, ...] | None:
    """Return ``replicas`` with each of ``leaving`` replaced in its place; None when there are too few other brokers."""
    result = list(replicas)
    for position, node in enumerate(replicas):
        if node in leaving:
            successor = load.least({*result, *leaving})
            if successor is None:
                return None
            load.add(successor)
            result[position] = successor
    return tuple(result)


def with_factor(partition: PartitionView, factor: int, load: Load) -> tuple[int, ...] | None:
    """Return the partition's replicas made ``factor`` many; None when there are too few brokers.

    More are added at the end. When there are too many, those go first that are not in sync, then the last ones, so that
    the preferred leader stays.
    """
    result = list(partition.target)
    while len(result) > factor:
        lagging = [node for node in result[1:] if node not in partition.isr]
        result.remove(lagging[-1] if lagging else result[-1])
    while len(result) < factor:
        node = load.least(result)
        if node is None:
            return None
        load.add(node)
        result.append(node)
    return tuple(result)

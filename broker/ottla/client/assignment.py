"""Which brokers shall hold a partition: proposals for a reassignment. Pure; racks are not looked at.

Order matters: the first replica is the preferred leader.
"""

from collections.abc import Collection, Iterable, Sequence
from zlib import crc32

from ottla.types import NodeId


class Load:
    """How many replicas each broker has, and will have; ties go to the lower id."""

    def __init__(self, brokers: Iterable[NodeId], assignments: Iterable[Sequence[NodeId]]) -> None:
        self._replicas = dict.fromkeys(sorted(brokers), 0)
        for assignment in assignments:
            for node in assignment:
                self.add(node)

    def add(self, node: NodeId) -> None:
        if node in self._replicas:
            self._replicas[node] += 1

    def least(self, excluded: Collection[NodeId]) -> NodeId | None:
        """Return the broker with the fewest replicas; None when all are excluded."""
        candidates = [node for node in self._replicas if node not in excluded]
        return min(candidates, key=lambda node: (self._replicas[node], node), default=None)


def without(replicas: Sequence[NodeId], leaving: Collection[NodeId], load: Load) -> tuple[NodeId, ...] | None:
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


def with_factor(
    replicas: Sequence[NodeId], isr: Collection[NodeId], factor: int, load: Load
) -> tuple[NodeId, ...] | None:
    """Return ``replicas`` made ``factor`` many; None when there are too few brokers.

    More are added at the end. When there are too many, those go first that are not in ``isr``, then the last ones, so
    that the preferred leader stays.
    """
    result = list(replicas)
    while len(result) > factor:
        lagging = [node for node in result[1:] if node not in isr]
        result.remove(lagging[-1] if lagging else result[-1])
    while len(result) < factor:
        node = load.least(result)
        if node is None:
            return None
        load.add(node)
        result.append(node)
    return tuple(result)


def spread(topic: str, partition: int, brokers: Sequence[NodeId], factor: int) -> tuple[NodeId, ...]:
    """Return the replicas of one partition of a topic that is spread over ``brokers`` anew.

    Leaders go round; the other replicas follow their leader at a distance that grows with each round, so that the
    partitions of a broker that is lost are taken over by all others. Topics begin at different brokers.
    ``factor`` is at most the number of ``brokers``.

    Source: the striping of Kafka's AdminUtils.assignReplicasToBrokers; its random start is the topic's checksum here.
    """
    assert 0 < factor <= len(brokers), f"{factor} replicas on {len(brokers)} brokers"
    ordered = sorted(brokers)
    start = crc32(topic.encode())
    first, rounds = (start + partition) % len(ordered), start // len(ordered) + partition // len(ordered)
    others = [(first + 1 + (rounds + number) % (len(ordered) - 1)) % len(ordered) for number in range(factor - 1)]
    return tuple(ordered[position] for position in (first, *others))

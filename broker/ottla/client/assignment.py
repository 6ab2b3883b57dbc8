"""Replica placement: proposals for a reassignment. Pure.

Order matters: the first replica is the preferred leader. A partition is spread over as many racks as possible; brokers
without a rack count as one rack, as in Kafka's own placement.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from zlib import crc32

from ottla.types import NodeId

Racks = Mapping[NodeId, str | None]
"""The rack of each broker; a broker without a rack is not in it."""


class Load:
    """The number of replicas that each broker has or will have; the lower id wins a tie."""

    def __init__(
        self, brokers: Iterable[NodeId], assignments: Iterable[Sequence[NodeId]], racks: Racks | None = None
    ) -> None:
        self._replicas = dict.fromkeys(sorted(brokers), 0)
        self._racks = racks or {}
        for assignment in assignments:
            for node in assignment:
                self.add(node)

    def add(self, node: NodeId) -> None:
        if node in self._replicas:
            self._replicas[node] += 1

    def remove(self, node: NodeId) -> None:
        if node in self._replicas:
            self._replicas[node] -= 1

    def most(self, candidates: Sequence[NodeId]) -> NodeId:
        """Return the broker that gives a replica up: a lost one, else that with the most; the last wins a tie."""
        return max(reversed(candidates), key=lambda node: self._replicas.get(node, float("inf")))

    def least(self, excluded: Collection[NodeId], beside: Collection[NodeId]) -> NodeId | None:
        """Return the broker for one more replica: with the fewest replicas, if possible not in a rack of ``beside``.

        None when all brokers are ``excluded``.
        """
        taken = {self._racks.get(node) for node in beside}
        candidates = [node for node in self._replicas if node not in excluded]
        return min(
            candidates,
            key=lambda node: (self._racks.get(node) in taken, self._replicas[node], node),
            default=None,
        )

    def shares_rack(self, node: NodeId, others: Iterable[NodeId]) -> bool:
        """Return whether ``node`` shares its rack with one of ``others``."""
        return any(self._racks.get(other) == self._racks.get(node) for other in others if other != node)


def without(replicas: Sequence[NodeId], leaving: Collection[NodeId], load: Load) -> tuple[NodeId, ...] | None:
    """Return ``replicas`` with each of ``leaving`` replaced in its place; None when there are too few other brokers."""
    result = list(replicas)
    for position, node in enumerate(replicas):
        if node in leaving:
            staying = [other for other in result if other not in leaving]
            successor = load.least({*result, *leaving}, staying)
            if successor is None:
                return None
            load.add(successor)
            result[position] = successor
    return tuple(result)


def with_factor(
    replicas: Sequence[NodeId], isr: Collection[NodeId], factor: int, load: Load
) -> tuple[NodeId, ...] | None:
    """Return ``factor`` replicas that differ little from ``replicas``; None when there are too few brokers.

    New ones are added at the end. Surplus ones are removed: first those that are not in ``isr``, then those that share
    a rack with another one, then any but the preferred leader; of several that of the broker with the most replicas.
    """
    result = list(replicas)
    while len(result) > factor:
        lagging = [node for node in result[1:] if node not in isr]
        doubled = [node for node in result[1:] if load.shares_rack(node, result)]
        surplus = load.most(lagging or doubled or result[1:])
        load.remove(surplus)
        result.remove(surplus)
    while len(result) < factor:
        node = load.least(result, result)
        if node is None:
            return None
        load.add(node)
        result.append(node)
    return tuple(result)


def spread(topic: str, partition: int, brokers: Sequence[NodeId], factor: int) -> tuple[NodeId, ...]:
    """Return the replicas of one partition of a topic that is spread over all ``brokers``, regardless of racks.

    Leaders are assigned round-robin; the other replicas follow their leader at a distance that grows with each round,
    so that all other brokers take over the partitions of a lost broker. Topics start at different brokers.
    ``factor`` is at most the number of ``brokers``.

    Source: the striping of Kafka's AdminUtils.assignReplicasToBrokers; its random start is the topic's checksum here.
    """
    assert 0 < factor <= len(brokers), f"{factor} replicas on {len(brokers)} brokers"
    ordered = sorted(brokers)
    start = crc32(topic.encode())
    first, rounds = (start + partition) % len(ordered), start // len(ordered) + partition // len(ordered)
    others = [(first + 1 + (rounds + number) % (len(ordered) - 1)) % len(ordered) for number in range(factor - 1)]
    return tuple(ordered[position] for position in (first, *others))

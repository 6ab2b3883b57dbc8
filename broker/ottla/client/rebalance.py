"""Balance replicas and preferred leaders over brokers by few moves: the moves of a rebalance plan. Pure.

Goals, in order of priority:

1. A partition is on as many racks as possible, and never on fewer than before.
2. Brokers have the same number of replicas: none has two more than another one that could take one of them.
3. Brokers have the same number of bytes, if sizes are known; differences below 10 % of the average are ignored.
4. Brokers are the preferred leaders of the same number of partitions; for that, replicas only change their order.

Without racks and sizes, no plan that reaches the second goal copies fewer replicas. Each step decreases (replicas that
share a rack, sum of squared counts, sum of squared bytes), so the search ends; it ends only when no step is left, so a
plan for the result of a plan is empty.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ottla.client.assignment import Racks
from ottla.types import NodeId, TopicPartition

_Leadership: TypeAlias = tuple[bool, TopicPartition]
"""Whether its replicas are unchanged, and the partition."""
_Replica: TypeAlias = tuple[int, bool, TopicPartition]
"""Its bytes, whether it is the preferred leader, and the partition."""
_TOLERATED_SHARE = 10
"""Divisor of a broker's average bytes: smaller differences are not worth a copy."""


def balance_partitions(
    assignments: Mapping[TopicPartition, Sequence[NodeId]],
    racks: Racks,
    sizes_bytes: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, tuple[NodeId, ...]]:
    """Return the partitions to move, sorted, with their new replicas, the preferred leader first.

    Args:
        assignments: the replicas of every partition.
        racks: the brokers that take part, with their racks; replicas of other brokers are not moved.
        sizes_bytes: of one replica of each partition; None if unknown.
    """
    balance = _Balance(assignments, racks, sizes_bytes or {})
    balance.spread_over_racks()
    while balance.even_counts() or (sizes_bytes and balance.even_bytes()):
        pass
    balance.even_leaders()
    return {
        partition: tuple(replicas)
        for partition, replicas in sorted(balance.replicas.items())
        if tuple(replicas) != tuple(assignments[partition])
    }


class _Balance:
    """The replicas of each broker during the search."""

    def __init__(
        self,
        assignments: Mapping[TopicPartition, Sequence[NodeId]],
        racks: Racks,
        sizes_bytes: Mapping[TopicPartition, int],
    ) -> None:
        self.replicas = {partition: list(nodes) for partition, nodes in sorted(assignments.items())}
        self._before = assignments
        self._racks = racks
        self._sizes = sizes_bytes
        self._held: dict[NodeId, list[_Replica]] = {node: [] for node in sorted(racks)}
        """Sorted; preferred leaders do not change before leaders are balanced."""
        self._bytes = dict.fromkeys(self._held, 0)
        for partition, nodes in self.replicas.items():
            for node in nodes:
                if node in self._held:
                    self._held[node].append(self._replica(partition, node))
                    self._bytes[node] += self._size(partition)
        for held in self._held.values():
            held.sort()

    # --- racks

    def spread_over_racks(self) -> None:
        for partition, nodes in self.replicas.items():
            while (move := self._rack_move(nodes)) is not None:
                self._move(partition, *move)

    def _rack_move(self, nodes: Sequence[NodeId]) -> tuple[NodeId, NodeId] | None:
        """Return the source and target broker of a move to one more rack; None when there is none."""
        used = [self._racks.get(node) for node in nodes]
        doubled = [node for node in nodes if node in self._held and used.count(self._racks[node]) > 1]
        elsewhere = [node for node in self._held if self._racks[node] not in used]
        if not doubled or not elsewhere:
            return None
        # A follower is moved rather than the leader, and of several the one on the broker with the most replicas.
        giver = max(doubled, key=lambda node: (node != nodes[0], len(self._held[node]), node))
        return giver, min(elsewhere, key=lambda node: (len(self._held[node]), node))

    # --- replicas

    def even_counts(self) -> bool:
        """Move replicas from brokers with many to brokers with few; return whether any was moved."""
        has_moved = False
        while (move := self._count_move()) is not None:
            self._move(*move)
            has_moved = True
        return has_moved

    def _count_move(self) -> tuple[TopicPartition, NodeId, NodeId] | None:
        for giver, taker in self._pairs({node: len(held) for node, held in self._held.items()}, 2):
            best = self._best_replica(giver, taker)
            if best is not None:
                return best, giver, taker
        return None

    def _best_replica(self, giver: NodeId, taker: NodeId) -> TopicPartition | None:
        """Return the movable replica whose size is closest to half of the difference, followers before leaders."""
        held, gap = self._held[giver], self._bytes[giver] - self._bytes[taker]

        def first(start: int, stop: int) -> _Replica | None:
            return next((held[it] for it in range(start, stop) if self._may_go(held[it][2], giver, taker)), None)

        middle = bisect_left(held, (-(-gap // 2),))
        larger = first(middle, len(held))
        smaller, stop = None, middle
        while smaller is None and stop > 0:
            # Of equal sizes the first one, as for the larger sizes.
            start = bisect_left(held, (held[stop - 1][0],))
            smaller, stop = first(start, stop), start
        found = [each for each in (smaller, larger) if each is not None]
        best = min(found, key=lambda each: (abs(gap - 2 * each[0]), *each[1:]), default=None)
        return None if best is None else best[2]

    # --- bytes

    def even_bytes(self) -> bool:
        """Move or swap replicas until no broker has many more bytes than another; return whether any was moved."""
        tolerated = max(sum(self._bytes.values()) // max(len(self._bytes), 1) // _TOLERATED_SHARE, 1)
        has_moved = False
        while (moves := self._byte_moves(tolerated)) is not None:
            for move in moves:
                self._move(*move)
            has_moved = True
        return has_moved

    def _byte_moves(self, tolerated: int) -> list[tuple[TopicPartition, NodeId, NodeId]] | None:
        for giver, taker in self._pairs(self._bytes, tolerated + 1):
            gap = self._bytes[giver] - self._bytes[taker]
            best: tuple[int, TopicPartition, TopicPartition | None] | None = None
            for shift, given, taken in self._exchanges(giver, taker, gap):
                left = abs(gap - 2 * shift)
                if gap - left >= tolerated and (best is None or left < best[0]):
                    best = left, given, taken
            if best is not None:
                _, given, taken = best
                return [(given, giver, taker), *([] if taken is None else [(taken, taker, giver)])]
        return None

    def _exchanges(
        self, giver: NodeId, taker: NodeId, gap: int
    ) -> Iterator[tuple[int, TopicPartition, TopicPartition | None]]:
        """Yield the candidates for the best swap: (bytes moved, replica given, replica taken in exchange)."""
        given = sorted((size, it) for size, _, it in self._held[giver] if self._may_go(it, giver, taker))
        taken = sorted((size, it) for size, _, it in self._held[taker] if self._may_go(it, taker, giver))
        has_more = len(self._held[giver]) > len(self._held[taker])
        for size, partition in given:
            if has_more:
                yield size, partition, None
            place = bisect_left(taken, (size - gap // 2, partition))
            for other_size, other in taken[max(place - 1, 0) : place + 1]:
                yield size - other_size, partition, other

    # --- leaders

    def even_leaders(self) -> None:
        """Reorder replicas until no broker leads two more partitions than another one that could take one over."""
        led: dict[NodeId, list[_Leadership]] = {node: [] for node in self._held}
        for partition, nodes in self.replicas.items():
            if nodes[0] in led:
                insort(led[nodes[0]], self._leadership(partition))
        while (path := self._leader_path(led)) is not None:
            for partition, giver, taker in path:
                led[giver].remove(self._leadership(partition))
                nodes = self.replicas[partition]
                position = nodes.index(taker)
                nodes[0], nodes[position] = taker, giver
                insort(led[taker], self._leadership(partition))

    def _leader_path(
        self, led: Mapping[NodeId, Sequence[_Leadership]]
    ) -> list[tuple[TopicPartition, NodeId, NodeId]] | None:
        """Return leaderships to transfer, from a broker with many through others to one with at least two fewer."""
        for giver in sorted(led, key=lambda node: (-len(led[node]), node)):
            reached: dict[NodeId, tuple[TopicPartition, NodeId]] = {}
            queue = deque([giver])
            while queue:
                node = queue.popleft()
                for _, partition in led[node]:
                    for taker in self.replicas[partition][1:]:
                        if taker in led and taker != giver and taker not in reached:
                            reached[taker] = partition, node
                            if len(led[taker]) <= len(led[giver]) - 2:
                                return _way_back(taker, giver, reached)
                            queue.append(taker)
        return None

    def _leadership(self, partition: TopicPartition) -> _Leadership:
        """Return the sort key of a leadership to transfer: partitions that move anyway come first."""
        return self.replicas[partition] == list(self._before[partition]), partition

    # --- helpers

    def _pairs(self, amounts: Mapping[NodeId, int], difference: int) -> Iterator[tuple[NodeId, NodeId]]:
        """Yield pairs of brokers (giver, taker) that differ by ``difference`` or more, the most unequal first."""
        pairs = [
            (amounts[taker] - amounts[giver], giver, taker)
            for giver in amounts
            for taker in amounts
            if amounts[giver] - amounts[taker] >= difference
        ]
        for _, giver, taker in sorted(pairs):
            yield giver, taker

    def _may_go(self, partition: TopicPartition, giver: NodeId, taker: NodeId) -> bool:
        """Return whether a replica may be moved: not to a broker that has one, nor to a rack that has another one."""
        nodes = self.replicas[partition]
        if taker in nodes:
            return False
        rack, next_rack = self._racks[giver], self._racks[taker]
        if rack == next_rack:
            return True
        others = [self._racks.get(node) for node in nodes if node != giver]
        return next_rack not in others or rack in others

    def _move(self, partition: TopicPartition, giver: NodeId, taker: NodeId) -> None:
        nodes = self.replicas[partition]
        self._held[giver].pop(bisect_left(self._held[giver], self._replica(partition, giver)))
        nodes[nodes.index(giver)] = taker
        insort(self._held[taker], self._replica(partition, taker))
        self._bytes[giver] -= self._size(partition)
        self._bytes[taker] += self._size(partition)

    def _replica(self, partition: TopicPartition, node: NodeId) -> _Replica:
        return self._size(partition), self.replicas[partition][0] == node, partition

    def _size(self, partition: TopicPartition) -> int:
        return self._sizes.get(partition, 0)


def _way_back(
    node: NodeId, giver: NodeId, reached: Mapping[NodeId, tuple[TopicPartition, NodeId]]
) -> list[tuple[TopicPartition, NodeId, NodeId]]:
    path = []
    while node != giver:
        partition, before = reached[node]
        path.append((partition, before, node))
        node = before
    return path

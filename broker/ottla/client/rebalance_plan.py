"""A rebalance plan: the moves, the load of brokers before and after, and its text forms. Pure."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ottla.client.assignment import Racks
from ottla.client.rebalance import balance_partitions
from ottla.client.results import LogDirDescription
from ottla.types import NodeId, TopicPartition

MOVES_MAX = 5_000
"""Limit of one plan, which must fit into one Kubernetes object; the next plan has the other moves."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Move:
    """One partition with its replicas before and after, the preferred leader first."""

    partition: TopicPartition
    before: tuple[NodeId, ...]
    after: tuple[NodeId, ...]

    @property
    def copies(self) -> int:
        """The number of replicas to copy; 0 if only the order changes."""
        return len(set(self.after) - set(self.before))


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The load of one broker: replicas, partitions with it as preferred leader, bytes."""

    replicas: int = 0
    leaders: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePlan:
    """The result of `plan_rebalance`. ``before`` and ``after`` are by broker."""

    moves: tuple[Move, ...]
    racks: Racks
    before: Mapping[NodeId, BrokerLoad]
    after: Mapping[NodeId, BrokerLoad]
    size_bytes: int | None
    """The bytes to copy; None if unknown."""

    @property
    def id(self) -> str:
        """A digest of the moves; never a valid number, so that YAML reads it as a string."""
        return plan_id(self.moves)

    @property
    def copies(self) -> int:
        return sum(move.copies for move in self.moves)

    @property
    def summary(self) -> str:
        """One line."""
        if not self.moves:
            return "nothing has to move"
        size = "" if self.size_bytes is None else f" ({_size(self.size_bytes)})"
        only_leaders = sum(move.copies == 0 for move in self.moves)
        return (
            f"{len(self.moves)} partitions change: {self.copies} replicas are copied{size}, "
            f"{only_leaders} get another preferred leader only"
        )

    def table(self) -> str:
        """Return a table of each broker's load before and after."""
        rows = [("BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES")]
        for node in sorted(self.before):
            before, after = self.before[node], self.after[node]
            rows.append(
                (
                    str(node),
                    self.racks.get(node) or "-",
                    f"{before.replicas} -> {after.replicas}",
                    f"{before.leaders} -> {after.leaders}",
                    "?" if self.size_bytes is None else f"{_size(before.size_bytes)} -> {_size(after.size_bytes)}",
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        padded = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "".join(f"{line.rstrip()}\n" for line in padded)


def plan_rebalance(
    assignments: Mapping[TopicPartition, Sequence[NodeId]],
    racks: Racks,
    sizes_bytes: Mapping[TopicPartition, int] | None = None,
) -> RebalancePlan:
    """Return the plan of `balance_partitions`, limited to `MOVES_MAX` partitions; its cost is that of the search."""
    targets = dict(list(balance_partitions(assignments, racks, sizes_bytes).items())[:MOVES_MAX])
    moves = tuple(Move(it, tuple(assignments[it]), target) for it, target in targets.items())
    return RebalancePlan(
        moves=moves,
        racks=racks,
        before=_loads(assignments, racks, sizes_bytes),
        after=_loads({**assignments, **targets}, racks, sizes_bytes),
        size_bytes=None if sizes_bytes is None else sum(it.copies * sizes_bytes.get(it.partition, 0) for it in moves),
    )


def largest_replicas(directories: Mapping[NodeId, Iterable[LogDirDescription]]) -> dict[TopicPartition, int]:
    """Return the bytes of the largest replica of each partition, from the disks of brokers."""
    sizes: dict[TopicPartition, int] = {}
    for directory in chain.from_iterable(directories.values()):
        for partition, replica in directory.replicas.items():
            if not replica.is_future:
                sizes[partition] = max(sizes.get(partition, 0), replica.size_bytes)
    return sizes


def remaining_moves(
    moves: Iterable[Move], targets: Mapping[TopicPartition, Sequence[NodeId]], brokers: Collection[NodeId]
) -> tuple[Move, ...] | str:
    """Return the moves that have not been started; or the reason why the plan does not apply any more.

    Args:
        moves: the plan's.
        targets: the replicas of every partition, or the target replicas of its reassignment.
        brokers: those that may get replicas.
    """
    left = tuple(move for move in moves if tuple(targets.get(move.partition, ())) != move.after)
    for move in left:
        if move.partition not in targets:
            return f"{move.partition} no longer exists"
        if tuple(targets[move.partition]) != move.before:
            now = ", ".join(map(str, targets[move.partition]))
            return f"{move.partition} is on {now} now, and was on {', '.join(map(str, move.before))}"
        if gone := sorted(set(move.after) - set(move.before) - set(brokers)):
            return f"broker {gone[0]} no longer exists"
    return left


def plan_id(moves: Iterable[Move]) -> str:
    digest = hashlib.sha256(moves_json(moves).encode()).hexdigest()
    return f"r{digest[:12]}"


def moves_json(moves: Iterable[Move]) -> str:
    """Write moves one per line, as kafka-reassign-partitions and ``ottla partition reassign --file`` read them."""
    lines = [
        json.dumps(
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "replicas": list(move.after),
                "before": list(move.before),
            }
        )
        for move in moves
    ]
    body = ",\n".join(lines)
    return f'{{"version": 1, "partitions": [\n{body}\n]}}\n' if lines else '{"version": 1, "partitions": []}\n'


def parse_moves(text: str) -> tuple[Move, ...]:
    """Read what `moves_json` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        return tuple(
            Move(
                TopicPartition(str(entry["topic"]), int(entry["partition"])),
                tuple(map(int, entry["before"])),
                tuple(map(int, entry["replicas"])),
            )
            for entry in json.loads(text)["partitions"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no list of moves: {error}") from error


def _loads(
    assignments: Mapping[TopicPartition, Sequence[NodeId]],
    racks: Racks,
    sizes_bytes: Mapping[TopicPartition, int] | None,
) -> dict[NodeId, BrokerLoad]:
    replicas, leaders, sizes = ({node: 0 for node in racks} for _ in range(3))
    for partition, nodes in assignments.items():
        for node in nodes:
            if node in replicas:
                replicas[node] += 1
                leaders[node] += node == nodes[0]
                sizes[node] += (sizes_bytes or {}).get(partition, 0)
    return {node: BrokerLoad(replicas[node], leaders[node], sizes[node]) for node in sorted(replicas)}


def _size(size_bytes: int) -> str:
    amount, unit = float(size_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"

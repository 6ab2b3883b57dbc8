"""A toy coordinator on the runtime: counters that are removed when they have not been incremented for a while.

Its responses are strings: ``a=1`` for the value of a counter, else the name of the error.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from ottla.coordinator.partitioner import partition_for_key
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.serde import RecordSerde
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorTimer
from ottla.coordinator.transactions import TransactionalProducer, TransactionEnd
from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.purgatory import Delayed
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import ProducerId
from ottla.wire.records import NO_PRODUCER_ID, parse_batch

TTL_MS = 60_000
VALUE_MAX = 10_000


class Counter(NamedTuple):
    """One record; a value of None removes the counter."""

    name: str
    value: int | None


def encode(record: Counter) -> tuple[bytes, bytes | None]:
    return record.name.encode(), None if record.value is None else str(record.value).encode()


def decode(key: bytes, value: bytes | None) -> Counter | None:
    if key == b"unknown":
        return None
    if value is not None and not value.isdigit():
        raise ProtocolError(f"{value!r} is not a number")
    return Counter(key.decode(), None if value is None else int(value))


class CounterShard:
    """Counters of one partition; ``watchers`` wait for an event that never comes."""

    def __init__(self, timer: CoordinatorTimer[Counter]) -> None:
        self.counts: dict[str, int] = {}
        self.pending: dict[ProducerId, dict[str, int]] = {}
        self.watchers: list[Delayed[ErrorCode]] = []
        self.unloaded = 0
        self.timer = timer

    def replay(self, record: Counter, producer_id: ProducerId) -> None:
        if record.value is None:
            self.counts.pop(record.name, None)
        elif producer_id == NO_PRODUCER_ID:
            self.counts[record.name] = record.value
        else:
            self.pending.setdefault(producer_id, {})[record.name] = record.value

    def replay_end_transaction_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        pending = self.pending.pop(producer_id, {})
        if is_commit:
            self.counts |= pending

    def on_loaded(self) -> Iterable[CoordinatorResult[Counter, None]]:
        for name in self.counts:
            self.schedule_removal(name)
        too_large = [Counter(name, VALUE_MAX) for name, value in self.counts.items() if value > VALUE_MAX]
        return [CoordinatorResult(records=too_large, response=None)] if too_large else []

    def on_unloaded(self) -> None:
        self.unloaded += 1
        for watcher in self.watchers:
            watcher.complete(ErrorCode.NOT_COORDINATOR)

    def describe_contents(self) -> str:
        return f"{len(self.counts)} counters"

    # Operations

    def increment(self, name: str, by: int) -> CoordinatorResult[Counter, str]:
        if by <= 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        value = self.counts.get(name, 0) + by
        self.schedule_removal(name)
        return CoordinatorResult(records=[Counter(name, value)], response=f"{name}={value}")

    def read(self, name: str) -> str:
        return f"{name}={self.counts.get(name, 0)}"

    def remove_all(self) -> CoordinatorResult[Counter, None]:
        return CoordinatorResult(records=[Counter(name, None) for name in self.counts], response=None, is_atomic=False)

    def schedule_removal(self, name: str) -> None:
        def remove() -> CoordinatorResult[Counter, None]:
            return CoordinatorResult(records=[Counter(name, None)], response=None)

        self.timer.schedule(("removal", name), TTL_MS, remove)


class CounterNode:
    """One node that leads partitions of the internal topic ``__counters``."""

    PARTITIONS = 3
    WRITE_TIMEOUT_MS = 5_000
    SERDE = RecordSerde(encode=encode, decode=decode)
    TTL_MS = TTL_MS

    def __init__(self, log: Any) -> None:
        self.clock = SimulatedClock()
        self.log = log
        self.partition_count: int | None = self.PARTITIONS
        settings = CoordinatorSettings(
            topic_name="__counters",
            partition_count=lambda: self.partition_count,
            serde=self.SERDE,
            build_shard=CounterShard,
            write_timeout_ms=self.WRITE_TIMEOUT_MS,
        )
        self.runtime = CoordinatorRuntime(settings=settings, clock=self.clock, log=log)

    @staticmethod
    def partition_of(name: str) -> int:
        return partition_for_key(name, CounterNode.PARTITIONS)

    def elect(self, name: str = "a", leader_epoch: int = 0, batches: Iterable[Any] | None = None) -> None:
        """Lead the partition of ``name``, and load it to its end."""
        self.start_election(name, leader_epoch, batches)
        while self.runtime.is_loading:
            self.runtime.tick(self.clock.monotonic_ms())

    def start_election(self, name: str = "a", leader_epoch: int = 0, batches: Iterable[Any] | None = None) -> None:
        """Lead the partition of ``name``, and load the first slice of it."""
        partition = self.partition_of(name)
        written = self.log.read_again(partition) if batches is None else batches
        self.runtime.on_elected(partition, leader_epoch, iter(written))

    def resign(self, name: str = "a", leader_epoch: int | None = None) -> None:
        self.runtime.on_resigned(self.partition_of(name), leader_epoch)

    def write_log(self, *batches: bytes, name: str = "a") -> None:
        """Put batches into the log, as an earlier leader would have."""
        self.log.batches[self.partition_of(name)] = [parse_batch(bytearray(batch)) for batch in batches]

    def batch(self, *records: tuple[str, int | None]) -> bytes:
        return self.SERDE.encode_batch([Counter(*record) for record in records], timestamp_ms=0)

    def increment(self, name: str = "a", by: int = 1) -> Delayed[str]:
        return self.runtime.run_write_operation(name, lambda shard: shard.increment(name, by), _error_name)

    def increment_in_transaction(self, producer_id: ProducerId, name: str = "a", by: int = 1) -> Delayed[str]:
        """Increment as part of a transaction of the producer, in its epoch 3."""
        producer = TransactionalProducer("payments", producer_id, 3)
        return self.runtime.run_transactional_write_operation(
            name, producer, 5, lambda shard: shard.increment(name, by), _error_name
        )

    def end_transaction(
        self, producer_id: ProducerId, *, is_commit: bool = True, name: str = "a"
    ) -> Delayed[ErrorCode]:
        """Write the marker with the next epoch, as transaction version 2 has it."""
        end = TransactionEnd(producer_id, 4, coordinator_epoch=7, is_commit=is_commit, transaction_version=2)
        return self.runtime.end_transaction(self.partition_of(name), end)

    def read(self, name: str = "a", *, must_be_latest: bool = False) -> Delayed[str]:
        return self.runtime.run_read_operation(
            name, lambda shard: shard.read(name), _error_name, must_be_latest=must_be_latest
        )

    def shard(self, name: str = "a") -> CounterShard:
        return self.runtime.context_for(name).shard

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with every deadline met to the millisecond."""
        end_ms = self.clock.monotonic_ms() + milliseconds
        while (deadline_ms := self.runtime.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(max(deadline_ms - self.clock.monotonic_ms(), 0))
            self.runtime.tick(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())


def _error_name(error: ErrorCode) -> str:
    return error.name


@pytest.fixture
def idle_node(coordinator_log: Any) -> CounterNode:
    """A node that leads no partition."""
    return CounterNode(coordinator_log)


@pytest.fixture
def node(idle_node: CounterNode) -> CounterNode:
    """A node that leads the partitions of the counters a and b, which are two."""
    for name in ("a", "b"):
        idle_node.elect(name)
    return idle_node

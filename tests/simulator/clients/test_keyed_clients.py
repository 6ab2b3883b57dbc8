"""Readers of a compacted topic: which scans from the start of the log count."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.simulator.clients.keyed_clients import CLEANING_MS_MAX, KeyedReader
from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.types import Uuid
from ottla.wire.messages.fetch import PartitionData
from ottla.wire.records import Record, build_batch, parse_batch

KEY = PartitionKey("keyed", Uuid(bytes(16)), 0)
PUT, DELETED = Record(0, 0, b"k", b"v"), Record(1, 0, b"k", None)
DELETE_RETENTION_MS = 3_000
STARTED_MS = 10_000


class World:
    """A reader of one partition, which is led by node 1, and a ledger in which the only key is deleted."""

    def __init__(self) -> None:
        self.clock: Any = SimpleNamespace(now_ms=STARTED_MS)
        self.leader: Any = SimpleNamespace(step_count=0, thawed_ms=-1)
        self.partition: Any = SimpleNamespace(leader=1, leader_epoch=1)
        cluster = SimpleNamespace(clock=self.clock, nodes={1: self.leader})
        host: Any = SimpleNamespace(cluster=cluster, after=lambda delay_ms, action: None)
        ledger = Ledger()
        ledger.partition(KEY).add(parse_batch(build_batch([PUT, DELETED])))
        topic = SimpleNamespace(partitions={0: self.partition})
        image = SimpleNamespace(topics=SimpleNamespace(by_id={KEY.topic_id: topic}))
        state_observer: Any = SimpleNamespace(ledger=ledger, image=image, read=lambda key, values: None)
        self.reader = KeyedReader(host, state_observer, "r", "keyed", delete_retention_ms=DELETE_RETENTION_MS)
        self.reader._positions[0] = 0
        self.reader._take(0, KEY, PartitionData())

    def end_scan(self) -> None:
        """Read the value, but not the tombstone."""
        data = PartitionData(records=memoryview(build_batch([PUT], last_offset=1)))
        self.reader._take(0, KEY, data)


def test_reader_that_misses_a_tombstone_is_detected() -> None:
    world = World()

    with pytest.raises(InvariantViolation, match="CompactionKeepsTheLastOfEachKey"):
        world.end_scan()


def take_too_long(world: World) -> None:
    world.clock.now_ms += DELETE_RETENTION_MS - CLEANING_MS_MAX


def step_clock(world: World) -> None:
    world.leader.step_count += 1


def pause_leader(world: World) -> None:
    world.leader.thawed_ms = world.clock.now_ms


def elect_another(world: World) -> None:
    world.partition.leader_epoch += 1


@pytest.mark.parametrize("disturb", [take_too_long, step_clock, pause_leader, elect_another])
def test_reader_may_miss_a_tombstone_in_a_disturbed_scan(disturb: Any) -> None:
    world = World()
    disturb(world)
    world.end_scan()

    assert world.reader.scan_count == 0

"""Snapshots start when the log has grown or aged enough, are written in pieces, and hold the image that was due."""

import errno
from typing import Any

import pytest

from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.loader import MetadataLoader
from ottla.metadata.records import MetadataRecord
from ottla.metadata.snapshot_generator import RECORDS_PER_TICK, SnapshotGenerator, SnapshotGeneratorConfig
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.simulator.world.single_voter_quorum import create_single_voter_quorum, format_single_voter_quorum
from ottla.wire.messages.metadata_log import ConfigRecord

INTERVAL_MS = 3_600_000


class Node:
    """A quorum of one replica whose records the test writes."""

    def __init__(self, **config: int) -> None:
        self.disk, self.clock = SimulatedDisk(), SimulatedClock()
        format_single_voter_quorum(self.disk, self.clock, SeededRandom(1))
        self.start(**config)

    def start(self, **config: int) -> None:
        self.raft = create_single_voter_quorum(self.disk, self.clock)
        self.generator = SnapshotGenerator(
            raft=self.raft, clock=self.clock, config=SnapshotGeneratorConfig(**config) if config else None
        )
        self.loader = MetadataLoader()
        self.loader.add_publisher(self.generator)
        self.raft.register(self.loader)
        self.raft.initialize()
        self.disk.complete_syncs()

    def append(self, *records: MetadataRecord) -> None:
        self.raft.append(self.raft.leader_and_epoch.epoch, records)
        self.disk.complete_syncs()

    def tick_until_idle(self) -> int:
        """Tick the generator until it is idle; return the number of ticks."""
        ticks = 0
        while self.generator.next_deadline_ms() is not None:
            self.generator.tick(self.clock.monotonic_ms())
            ticks += 1
        self.disk.complete_syncs()
        return ticks


def settings(count: int, value: str = "1") -> list[MetadataRecord]:
    return [
        MetadataRecord(ConfigRecord(resource_type=2, resource_name=f"t{number}", name="retention.ms", value=value), 0)
        for number in range(count)
    ]


def test_no_snapshot_before_it_is_due() -> None:
    node = Node()
    node.append(*bootstrap_records())

    assert node.generator.next_deadline_ms() is None
    assert node.raft.latest_snapshot == (0, 0)


@pytest.mark.parametrize(("elapsed_ms", "is_due"), [(INTERVAL_MS - 1, False), (INTERVAL_MS, True)])
def test_snapshot_is_due_after_the_interval(elapsed_ms: int, is_due: bool) -> None:
    node = Node()
    node.clock.advance(elapsed_ms)
    node.append(*bootstrap_records())

    assert (node.generator.next_deadline_ms() is not None) == is_due


def test_snapshot_is_due_after_enough_bytes_and_holds_the_image_of_that_moment() -> None:
    node = Node(size_bytes_max=2_000)
    node.append(*bootstrap_records(), *settings(100))
    due = node.loader.image
    assert node.generator.next_deadline_ms() is not None

    node.append(*settings(1, "2"))
    node.tick_until_idle()
    latest = node.raft.latest_snapshot
    node.disk.crash()
    node.start()

    assert latest == (due.provenance.last_contained_offset + 1, 1)
    assert node.loader.image.configs.of_topic("t0") == {"retention.ms": "2"}
    assert node.loader.image.configs.of_topic("t99") == {"retention.ms": "1"}
    assert node.loader.image.features == due.features


def test_large_image_is_written_over_many_ticks() -> None:
    node = Node(size_bytes_max=1)
    count = 3 * RECORDS_PER_TICK
    node.append(*bootstrap_records(), *settings(count))

    # The epoch's first records were due for a snapshot, too: that one is written first.
    node.tick_until_idle()
    node.append(*settings(1, "2"))

    assert node.tick_until_idle() >= count // RECORDS_PER_TICK


def test_failed_snapshot_write_stops_the_node() -> None:
    node: Any = Node(size_bytes_max=1)
    node.append(*bootstrap_records())
    node.disk.fail_next("write", errno.ENOSPC, path_part=".checkpoint.part")

    node.tick_until_idle()

    assert node.raft.failure is not None

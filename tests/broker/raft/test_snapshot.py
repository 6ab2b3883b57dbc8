"""Snapshots are complete or absent, and corruption is distinguished from absence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import StorageError
from ottla.raft.snapshot import (
    SnapshotReader,
    SnapshotWriter,
    parse_snapshot_file_name,
    read_last_contained_log_time_ms,
    snapshot_file_name,
)
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import Endpoint, OffsetAndEpoch, Uuid

SNAPSHOT_ID = OffsetAndEpoch(42, 3)
PATH = "/s/00000000000000000042-0000000003.checkpoint"
VOTERS = VoterSet.of([Voter(1, Uuid(b"d" * 16), {"CONTROLLER": Endpoint("h", 9093)})])


class BytesSerde:
    def encode(self, record: bytes) -> bytes:
        return record

    def decode(self, value: Any) -> bytes:
        return bytes(value)


def writer(disk: SimulatedDisk, **options: Any) -> SnapshotWriter[bytes]:
    disk.make_directory("/s")
    return SnapshotWriter(
        disk=disk,
        clock=SimulatedClock(),
        directory="/s",
        snapshot_id=SNAPSHOT_ID,
        serde=BytesSerde(),
        last_contained_log_time_ms=77,
        **options,
    )


def opened(disk: SimulatedDisk) -> SnapshotReader[bytes]:
    return SnapshotReader.open(disk, PATH, SNAPSHOT_ID, BytesSerde())


@given(batches=st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=5), max_size=5))
def test_written_records_are_read_back(batches: list[list[bytes]]) -> None:
    disk = SimulatedDisk()
    created = writer(disk, kraft_version=1, voters=VOTERS)
    for batch in batches:
        created.append(batch)
    created.freeze()
    disk.crash()

    reader = opened(disk)

    assert [list(batch.records) for batch in reader.batches()] == batches
    assert (reader.kraft_version, reader.voters, reader.last_contained_log_time_ms) == (1, VOTERS, 77)
    assert reader.last_contained_offset == 41
    assert read_last_contained_log_time_ms(disk, PATH) == 77


def test_snapshot_is_published_only_when_complete() -> None:
    disk = SimulatedDisk()
    created = writer(disk)
    created.append([b"a"])
    finished: list[StorageError | None] = []
    created.freeze_later(finished.append)

    assert not disk.exists(PATH)
    disk.complete_syncs()
    assert disk.exists(PATH)
    assert finished == [None]


def test_abandoned_snapshot_leaves_no_files() -> None:
    disk = SimulatedDisk()
    created = writer(disk)
    created.append([b"a"])
    created.abandon()

    assert disk.list_directory("/s") == []


def test_snapshot_without_a_footer_is_rejected() -> None:
    disk = SimulatedDisk()
    writer(disk)
    disk.rename(PATH + ".part", PATH)

    with pytest.raises(StorageError, match="has no footer"):
        opened(disk)


def test_flipped_bit_is_detected() -> None:
    disk = SimulatedDisk()
    created = writer(disk)
    created.append([b"abcdef"])
    created.freeze()
    disk.corrupt(PATH, 155, b"X")

    with pytest.raises(StorageError, match="is corrupt"):
        opened(disk)


def test_file_names_are_read_back() -> None:
    assert parse_snapshot_file_name(snapshot_file_name(SNAPSHOT_ID)) == SNAPSHOT_ID


@pytest.mark.parametrize(
    "name",
    ["bootstrap.checkpoint", "00000000000000000042-0000000003.checkpoint.part", "42-3.checkpoint", "quorum-state"],
)
def test_other_files_are_no_snapshots(name: str) -> None:
    assert parse_snapshot_file_name(name) is None

"""Checkpoint files: the old or the new contents, never a part, and a clear error for foreign contents."""

import errno

import pytest

from ottla.errors import StorageError
from ottla.log.checkpoint import (
    format_offsets,
    format_partition_metadata,
    parse_epochs,
    parse_offsets,
    parse_partition_metadata,
    read_offsets,
    read_partition_metadata,
    read_text,
    write_text,
    write_text_later,
)
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition, Uuid

PATH = "/recovery-point-offset-checkpoint"


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_offsets_are_written_as_kafka_does() -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a", 10): 5, TopicPartition("a", 2): 0}

    text = format_offsets(offsets)

    assert text == "0\n3\na 2 0\na 10 5\nb 1 7\n"
    assert parse_offsets(text, PATH) == offsets


def test_missing_checkpoint_has_no_offsets(disk: SimulatedDisk) -> None:
    assert read_offsets(disk, PATH) == {}


@pytest.mark.parametrize(
    "text",
    ["\n", "garbage", "1\n0\n", "1\n", "0\nx\n", "0\n1\n", "0\n1\na 1\n", "0\n1\na b 1\n", "0\n1\na 1 x\n"],
    ids=[
        "blank",
        "no-header",
        "version",
        "version-alone",
        "no-count",
        "count",
        "two-fields",
        "partition",
        "offset",
    ],
)
def test_malformed_offsets_are_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(StorageError, match=PATH):
        parse_offsets(text, PATH)


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"], ids=["empty", "version-alone", "no-entries"])
def test_checkpoint_without_entries_is_read_as_kafka_reads_it(text: str) -> None:
    """JVM Kafka leaves an empty leader-epoch-checkpoint for each replica that never had a record."""
    assert parse_offsets(text, PATH) == {}
    assert parse_epochs(text, PATH) == []


def test_written_checkpoint_survives_a_power_cut(disk: SimulatedDisk) -> None:
    write_text(disk, PATH, "one")
    write_text(disk, PATH, "two")
    disk.crash()

    assert read_text(disk, PATH) == "two"


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename"])
def test_failed_checkpoint_write_keeps_the_old_file(disk: SimulatedDisk, operation: str) -> None:
    write_text(disk, PATH, "old")
    disk.fail_next(operation, errno.EIO)

    with pytest.raises(StorageError, match="cannot write"):
        write_text(disk, PATH, "new")

    assert read_text(disk, PATH) == "old"


def test_write_off_the_loop_takes_effect_after_its_sync(disk: SimulatedDisk) -> None:
    write_text(disk, PATH, "old")
    done: list[StorageError | None] = []

    write_text_later(disk, PATH, "new", done.append)
    assert (read_text(disk, PATH), done) == ("old", [])
    disk.complete_syncs()

    assert (read_text(disk, PATH), done) == ("new", [None])


@pytest.mark.parametrize("operation", ["open", "sync", "rename"])
def test_failed_write_off_the_loop_is_reported(disk: SimulatedDisk, operation: str) -> None:
    disk.fail_next(operation, errno.EIO)
    done: list[StorageError | None] = []

    write_text_later(disk, PATH, "new", done.append)
    disk.complete_syncs()

    assert [type(error) for error in done] == [StorageError]


def test_file_that_is_not_utf8_is_an_error(disk: SimulatedDisk) -> None:
    disk.open(PATH, create=True).pwritev([b"\xff"], 0)

    with pytest.raises(StorageError, match="not UTF-8"):
        read_text(disk, PATH)


def test_partition_metadata_has_kafkas_format() -> None:
    text = format_partition_metadata(Uuid(bytes(range(16))))

    assert text == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert parse_partition_metadata(text + "\n", "x") == bytes(range(16))
    assert parse_partition_metadata("", "x") is None


@pytest.mark.parametrize(
    "text",
    ["version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "version: 0\n", "version: 0\ntopic_id: short"],
    ids=["version", "no-id", "not-an-id"],
)
def test_malformed_partition_metadata_is_an_error(text: str) -> None:
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        parse_partition_metadata(text, "/t-0/partition.metadata")


@pytest.mark.parametrize(
    "content",
    [b"", b"vers", b"version: 0\ntopic_id: AAECAwQ", b"\xff" * 40],
    ids=["empty", "torn", "torn-id", "not-text"],
)
def test_partition_metadata_corrupted_by_a_power_cut_counts_as_not_written(disk: SimulatedDisk, content: bytes) -> None:
    """Found by the simulator (seed 94): a flipped bit in it took the whole log directory offline, for ever."""
    disk.open("/partition.metadata", create=True).pwritev([content], 0)

    assert read_partition_metadata(disk, "") is None


def test_io_error_on_partition_metadata_is_an_error(disk: SimulatedDisk) -> None:
    disk.open("/partition.metadata", create=True)
    disk.fail_next("read", errno.EIO)

    with pytest.raises(StorageError, match="cannot read"):
        read_partition_metadata(disk, "")

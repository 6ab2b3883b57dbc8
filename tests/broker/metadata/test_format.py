"""Formatting writes the files of ``kafka-storage format``, and fails with its messages."""

from typing import Any

import pytest

from ottla.errors import ConfigurationError
from ottla.log.meta_properties import read_meta_properties
from ottla.metadata.bootstrap import bootstrap_records, parse_release_version, read_bootstrap
from ottla.metadata.format import FormatOptions, format_storage, parse_initial_controllers
from ottla.metadata.records import MetadataRecordSerde
from ottla.raft.snapshot import SnapshotReader
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint, OffsetAndEpoch, Uuid, format_uuid

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SNAPSHOT = "/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
OTHER = Uuid(b"o" * 16)


def formatted(disk: SimulatedDisk, **overrides: Any) -> list[str]:
    options: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "node_id": 1,
        "log_directories": ["/a", "/b"],
        "metadata_log_directory": "/a",
        "is_controller": True,
        "listeners": {"CONTROLLER": Endpoint("h", 9093)},
    }
    return format_storage(disk, SimulatedClock(), SeededRandom(1), FormatOptions(**{**options, **overrides}))


def test_every_directory_gets_its_own_id_and_the_bootstrap_records() -> None:
    disk = SimulatedDisk()

    lines = formatted(disk, static_voters=True)
    disk.crash()

    found = [read_meta_properties(disk, directory) for directory in ("/a", "/b")]
    assert {(each.cluster_id, each.node_id) for each in found if each is not None} == {(CLUSTER_ID, 1)}
    assert len({each.directory_id for each in found if each is not None}) == 2
    assert [read_bootstrap(disk, directory) for directory in ("/a", "/b")] == [bootstrap_records()] * 2
    assert not disk.exists(SNAPSHOT)
    assert lines[1:] == [
        "Formatting metadata directory /a with metadata.version 4.3-IV0.",
        "Formatting data directory /b with metadata.version 4.3-IV0.",
    ]


def test_standalone_adds_this_node_s_directory_to_the_first_voter_set() -> None:
    disk = SimulatedDisk()

    lines = formatted(disk, standalone=True)

    properties = read_meta_properties(disk, "/a")
    assert properties is not None
    reader = SnapshotReader.open(disk, SNAPSHOT, OffsetAndEpoch(0, 0), MetadataRecordSerde())
    assert reader.kraft_version == 1
    assert reader.voters is not None
    assert reader.voters.voters[1].directory_id == properties.directory_id
    assert reader.voters.voters[1].listeners == {"CONTROLLER": Endpoint("h", 9093)}
    assert list(reader.batches()) == []
    assert lines[1] == "Formatting dynamic metadata voter directory /a with metadata.version 4.3-IV0."


def test_initial_controllers_give_this_node_the_directory_id_that_they_name() -> None:
    disk = SimulatedDisk()
    mine = format_uuid(Uuid(b"m" * 16))
    voters = parse_initial_controllers(f"1@h:9093:{mine},2@[::1]:9094:{format_uuid(OTHER)}", "CONTROLLER")

    formatted(disk, initial_controllers=voters)

    properties = read_meta_properties(disk, "/a")
    assert properties is not None
    assert properties.directory_id == Uuid(b"m" * 16)
    assert voters[1].listeners == {"CONTROLLER": Endpoint("::1", 9094)}


@pytest.mark.parametrize("text", ["", "1@h:9093", "x@h:1:AAAAAAAAAAAAAAAAAAAAAQ", "1@h:1:short", "h:1:2"])
def test_malformed_initial_controllers_are_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="initial controller"):
        parse_initial_controllers(text, "CONTROLLER")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param({}, "Because controller.quorum.voters is not set on this controller", id="no-voters-chosen"),
        pytest.param({"standalone": True, "static_voters": True}, "You cannot specify", id="static-and-standalone"),
        pytest.param({"standalone": True, "no_initial_controllers": True}, "exclude each other", id="two-ways"),
        pytest.param({"standalone": True, "is_controller": False}, "is for a controller", id="no-controller"),
        pytest.param({"standalone": True, "cluster_id": "x"}, "does not appear to be a valid UUID", id="cluster-id"),
        pytest.param({"standalone": True, "features": {"nope": 1}}, "Unsupported feature: nope", id="unknown-feature"),
    ],
)
def test_contradicting_options_are_rejected(overrides: dict[str, Any], message: str) -> None:
    disk = SimulatedDisk()

    with pytest.raises(ConfigurationError, match=message):
        formatted(disk, **overrides)
    assert not disk.exists("/a/meta.properties")


def test_formatted_directory_is_not_formatted_again() -> None:
    disk = SimulatedDisk()
    formatted(disk, static_voters=True)

    with pytest.raises(ConfigurationError, match=r"Log directory /a is already formatted\. Use --ignore-formatted"):
        formatted(disk, static_voters=True)
    assert formatted(disk, static_voters=True, ignore_formatted=True) == [
        "All of the log directories are already formatted."
    ]


@pytest.mark.parametrize(
    ("text", "level"), [("4.3-IV0", 30), ("4.3", 30), ("4.2", 29), ("3.3-IV3", 7), ("25", 25), ("4.0", 25)]
)
def test_release_versions_are_parsed(text: str, level: int) -> None:
    assert parse_release_version(text) == level


@pytest.mark.parametrize("text", ["4.4", "3.2", "6", "31", "", "x"])
def test_unsupported_release_versions_are_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"unknown metadata\.version"):
        parse_release_version(text)


@pytest.mark.parametrize(
    ("metadata_version", "features"),
    [
        (25, {"group.version": 1, "transaction.version": 2}),
        (27, {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}),
        (21, {}),
    ],
)
def test_older_metadata_versions_bring_fewer_features(metadata_version: int, features: dict[str, int]) -> None:
    records: list[Any] = [record.message for record in bootstrap_records(metadata_version)]
    levels = {record.name: record.feature_level for record in records}

    assert levels == {"metadata.version": metadata_version, **features}

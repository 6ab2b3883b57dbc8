"""A quorum of one: the metadata log of a node with nobody to talk to, under what is tried on top of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.log.meta_properties import read_meta_properties
from ottla.metadata.format import FormatOptions, format_storage
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.ports import Clock, Random
from ottla.raft.client import RaftClient
from ottla.simulator.chance import SeededRandom
from ottla.simulator.disk import SimulatedDisk
from ottla.simulator.quorum import NoPeers
from ottla.types import Endpoint

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY: Final = "/d"
_LISTENERS: Final = {"CONTROLLER": Endpoint("127.0.0.1", 9093)}


def format_quorum_of_one(
    disk: SimulatedDisk, clock: Clock, random: Random, *, features: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Format the disk of node 1; ``features`` are levels over the defaults."""
    options = FormatOptions(
        cluster_id=CLUSTER_ID,
        node_id=1,
        log_directories=[DIRECTORY],
        metadata_log_directory=DIRECTORY,
        is_controller=True,
        standalone=True,
        listeners=_LISTENERS,
        features=features,
    )
    format_storage(disk, clock, random, options)


def quorum_of_one(disk: SimulatedDisk, clock: Clock) -> RaftClient[MetadataRecord]:
    """Return the replica on a formatted disk; who listens is to be registered before it is initialized."""
    properties = read_meta_properties(disk, DIRECTORY)
    assert properties is not None
    assert properties.directory_id is not None
    return RaftClient(
        disk=disk,
        clock=clock,
        directory=DIRECTORY,
        node_id=1,
        directory_id=properties.directory_id,
        serde=MetadataRecordSerde(),
        random=SeededRandom(1),
        channel=NoPeers(),
        cluster_id=CLUSTER_ID,
        listeners=_LISTENERS,
        listener_name="CONTROLLER",
        bootstrap_servers=(),
        is_controller=True,
    )

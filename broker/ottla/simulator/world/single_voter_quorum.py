"""A quorum of one voter: the metadata log of a node without peers, for tests of the layers above it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.log.meta_properties import read_meta_properties
from ottla.metadata.format import FormatOptions, format_storage
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.ports import Clock, Random
from ottla.purgatory import Delayed
from ottla.raft.client import RaftClient
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint
from ottla.wire.codec import Message

CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY: Final = "/d"
_LISTENERS: Final = {"CONTROLLER": Endpoint("127.0.0.1", 9093)}


class NoPeers:
    """The `PeerChannel` of a replica without peers."""

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        del endpoint, listener, request, timeout_ms, purpose
        return Delayed.of(PeerFailure.CONNECTION_REFUSED)

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        del endpoint, listener, timeout_ms
        return Delayed.of(PeerFailure.CONNECTION_REFUSED)


def format_single_voter_quorum(
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


def create_single_voter_quorum(disk: SimulatedDisk, clock: Clock) -> RaftClient[MetadataRecord]:
    """Return the replica on a formatted disk; register its listeners before it is initialized."""
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

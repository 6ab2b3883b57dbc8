"""Formatting a node's storage: the files that ``kafka-storage format`` and ``ottla format`` write.

Every log directory gets ``meta.properties`` and ``bootstrap.checkpoint``. If the voters are kept in the log (KIP-853),
the metadata log directory also gets a first snapshot, which has only the kraft.version and the voters.

Source: Formatter, MetaProperties and BootstrapDirectory of Apache Kafka.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.errors import ConfigurationError, StorageError
from ottla.log.meta_properties import MetaProperties, meta_properties_path, write_meta_properties
from ottla.metadata.bootstrap import bootstrap_records, write_bootstrap
from ottla.metadata.metadata_version import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SCRAM_METADATA_VERSION,
)
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.metadata.scram import new_decoy_secret
from ottla.metadata.scram_arguments import scram_records
from ottla.ports import Clock, Disk, Random
from ottla.raft.metadata_log import METADATA_PARTITION
from ottla.raft.snapshot import SnapshotWriter
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import Endpoint, NodeId, OffsetAndEpoch, parse_uuid
from ottla.wire.messages.metadata_log import FeatureLevelRecord, UserScramCredentialRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """Arguments of the format command.

    Attributes:
        cluster_id: base64url of 16 bytes, the same for every node of the cluster.
        log_directories: log.dirs, and metadata.log.dir when it is not one of them.
        metadata_log_directory: metadata.log.dir; one of ``log_directories``.
        is_controller: process.roles holds controller.
        static_voters: controller.quorum.voters is set: the voters are not kept in the log.
        standalone: this node alone is the quorum at first; ``listeners`` are its advertised controller listeners.
        initial_controllers: the first voters, as ``ID@HOST:PORT:DIRECTORY_ID``, this node among them.
        no_initial_controllers: this controller joins a quorum later.
        ignore_formatted: skip formatted directories instead of failing.
        features: levels over the defaults.
        scram: initial SCRAM credentials of the cluster, each in the form of ``--add-scram``.
    """

    cluster_id: str
    node_id: NodeId
    log_directories: Sequence[str]
    metadata_log_directory: str
    is_controller: bool
    static_voters: bool = False
    standalone: bool = False
    initial_controllers: Sequence[Voter] = ()
    no_initial_controllers: bool = False
    listeners: Mapping[str, Endpoint] = field(default_factory=dict)
    ignore_formatted: bool = False
    metadata_version: int = LATEST_METADATA_VERSION
    features: Mapping[str, int] = field(default_factory=dict)
    scram: Sequence[str] = field(default=(), repr=False)


def parse_initial_controllers(text: str, listener: str) -> list[Voter]:
    """Read ``ID@HOST:PORT:DIRECTORY_ID,...``; the endpoints belong to ``listener``.

    Raises:
        ConfigurationError: the string is of another form, or names a node twice.
    """
    voters = []
    for entry in text.split(","):
        node, at, rest = entry.strip().partition("@")
        address, _, directory = rest.rpartition(":")
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        try:
            if not at or not host:
                raise ValueError("expected ID@HOST:PORT:DIRECTORY_ID")
            voters.append(Voter(int(node), parse_uuid(directory), {listener: Endpoint(host, int(port))}))
        except ValueError as error:
            raise ConfigurationError(f"initial controller {entry!r} cannot be read: {error}") from error
    if len({voter.node_id for voter in voters}) != len(voters):
        raise ConfigurationError(f"initial controllers {text!r} name a node twice")
    return voters


def format_storage(disk: Disk, clock: Clock, random: Random, options: FormatOptions) -> list[str]:
    """Format the directories that are not formatted; return the lines that ``kafka-storage format`` prints.

    Raises:
        ConfigurationError: the options contradict each other, or a directory is already formatted.
        StorageError: the disk failed.
    """
    _check(options)
    unformatted = []
    for directory in options.log_directories:
        if not disk.exists(meta_properties_path(directory)):
            unformatted.append(directory)
        elif not options.ignore_formatted:
            raise ConfigurationError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory "
                "and format the others."
            )
    if not unformatted:
        return ["All of the log directories are already formatted."]
    records = bootstrap_records(options.metadata_version, options.features)
    if options.scram and options.metadata_version < SCRAM_METADATA_VERSION:
        raise ConfigurationError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    records += scram_records(options.scram, random.randrange)
    lines = [f"Bootstrap metadata: {_describe(records, options.metadata_version)}"]
    if options.scram:
        # The first active controller's secret counts; until a node has read it, its own does. Kafka prints none of it.
        records.append(new_decoy_secret(random.randrange))
    for directory in unformatted:
        lines.append(_format_directory(disk, clock, random, options, directory, records))
    return lines


def _check(options: FormatOptions) -> None:
    try:
        parse_uuid(options.cluster_id)
    except ValueError as error:
        raise ConfigurationError(
            f"Cluster ID string {options.cluster_id} does not appear to be a valid UUID: {error}"
        ) from error
    chosen = (options.standalone, bool(options.initial_controllers), options.no_initial_controllers)
    if sum(chosen) > 1:
        raise ConfigurationError("--standalone, --initial-controllers and --no-initial-controllers exclude each other")
    if options.static_voters and (options.standalone or options.initial_controllers):
        raise ConfigurationError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if options.is_controller and not options.static_voters and not any(chosen):
        raise ConfigurationError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    if options.standalone and not options.is_controller:
        raise ConfigurationError("--standalone is for a controller: process.roles does not hold controller")
    if (
        options.initial_controllers
        and all(voter.node_id != options.node_id for voter in options.initial_controllers)
        and options.is_controller
    ):
        raise ConfigurationError(f"--initial-controllers does not name this node, {options.node_id}")


def _format_directory(
    disk: Disk, clock: Clock, random: Random, options: FormatOptions, directory: str, records: list[MetadataRecord]
) -> str:
    version = METADATA_VERSION_NAMES[options.metadata_version]
    is_metadata = directory == options.metadata_log_directory
    directory_id = random.uuid()
    for voter in options.initial_controllers:
        if is_metadata and voter.node_id == options.node_id:
            directory_id = voter.directory_id
    try:
        disk.make_directory(directory)
    except OSError as error:
        raise StorageError(f"cannot make {directory}: {error}") from error
    voters = list(options.initial_controllers)
    if options.standalone:
        voters = [Voter(options.node_id, directory_id, options.listeners)]
    kind = "data directory"
    if is_metadata and options.is_controller:
        kind = "dynamic metadata voter directory" if voters else "metadata directory"
    write_bootstrap(disk, clock, directory, records)
    if is_metadata and options.is_controller and voters:
        _write_voters(disk, clock, directory, VoterSet.of(voters))
    # Written last, because its presence marks the directory as formatted.
    properties = MetaProperties(cluster_id=options.cluster_id, node_id=options.node_id, directory_id=directory_id)
    write_meta_properties(disk, directory, properties)
    return f"Formatting {kind} {directory} with metadata.version {version}."


def _write_voters(disk: Disk, clock: Clock, directory: str, voters: VoterSet) -> None:
    log_directory = f"{directory}/{METADATA_PARTITION}"
    try:
        disk.make_directory(log_directory)
    except OSError as error:
        raise StorageError(f"cannot make {log_directory}: {error}") from error
    SnapshotWriter(
        disk=disk,
        clock=clock,
        directory=log_directory,
        snapshot_id=OffsetAndEpoch(0, 0),
        serde=MetadataRecordSerde(),
        last_contained_log_time_ms=clock.wall_ms(),
        kraft_version=1,
        voters=voters,
    ).freeze()


def _describe(records: list[MetadataRecord], metadata_version: int) -> str:
    shown = ", ".join(f"ApiMessageAndVersion({_show(record)} at version {record.version})" for record in records)
    return f"BootstrapMetadata(records=[{shown}], metadataVersionLevel={metadata_version}, source=format command)"


def _show(record: MetadataRecord) -> str:
    """Return a bootstrap record as Kafka prints it, but for what a credential holds."""
    message = record.message
    if isinstance(message, UserScramCredentialRecord):
        return (
            f"UserScramCredentialRecord(name='{message.name}', mechanism={message.mechanism}, salt=[hidden], "
            f"storedKey=[hidden], serverKey=[hidden], iterations={message.iterations})"
        )
    assert isinstance(message, FeatureLevelRecord)
    return f"FeatureLevelRecord(name='{message.name}', featureLevel={message.feature_level})"

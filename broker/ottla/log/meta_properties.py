"""``meta.properties``: which cluster, node and directory the files of a log directory belong to.

Lines of Java properties: ``version=1``, ``cluster.id``, ``node.id``, ``directory.id``. `ottla format` writes the file,
a node only reads it, and does not start with a directory of another node or cluster.

Source: MetaProperties, MetaPropertiesEnsemble of Kafka; KIP-858 (directory ids).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.config.properties import format_properties, parse_properties
from ottla.errors import ConfigurationError
from ottla.log.checkpoint import read_text, write_text
from ottla.ports import Disk
from ottla.types import NodeId, Uuid, format_uuid, parse_uuid

META_PROPERTIES = "meta.properties"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The file's contents; ``directory_id`` is None in a directory that was formatted before Kafka 3.7."""

    cluster_id: str
    node_id: NodeId
    directory_id: Uuid | None


def meta_properties_path(directory: str) -> str:
    return f"{directory}/{META_PROPERTIES}"


def write_meta_properties(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Write the file durably: this is how a directory is formatted.

    Raises:
        StorageError: an I/O error.
    """
    fields = {"version": str(VERSION), "cluster.id": properties.cluster_id, "node.id": str(properties.node_id)}
    if properties.directory_id is not None:
        fields["directory.id"] = format_uuid(properties.directory_id)
    write_text(disk, meta_properties_path(directory), format_properties(fields))


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Return the file's contents; None when the directory is not formatted.

    Raises:
        ConfigurationError: the file is malformed.
        StorageError: an I/O error.
    """
    path = meta_properties_path(directory)
    text = read_text(disk, path)
    return None if text is None else parse_meta_properties(text, path)


def parse_meta_properties(text: str, path: str) -> MetaProperties:
    """Read a file's text.

    Raises:
        ConfigurationError: another version, or a field that is missing or malformed.
    """
    fields = parse_properties(text)
    for name in ("version", "cluster.id", "node.id"):
        if name not in fields:
            raise ConfigurationError(f"{path}: Failed to find {name}. Format the directory again, or restore the file.")
    if fields["version"] != str(VERSION):
        raise ConfigurationError(f"{path}: Unknown meta.properties version number {fields['version']}")
    try:
        node_id = int(fields["node.id"])
        directory_id = parse_uuid(fields["directory.id"]) if "directory.id" in fields else None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return MetaProperties(cluster_id=fields["cluster.id"], node_id=node_id, directory_id=directory_id)


def verify_meta_properties(
    found: Mapping[str, MetaProperties | None], *, node_id: NodeId, cluster_id: str | None
) -> None:
    """Reject directories that do not belong together, or to this node.

    Args:
        found: by directory; None where there is no file.
        node_id: of the configuration.
        cluster_id: expected one; None takes the first directory's.

    Raises:
        ConfigurationError: with the directory, the value found and the value expected.
    """
    if not any(found.values()):
        raise ConfigurationError(
            f"No readable meta.properties files found in {', '.join(found)}. Run `ottla format` to format them."
        )
    paths_by_directory_id: dict[Uuid, str] = {}
    for directory, properties in found.items():
        if properties is None:
            raise ConfigurationError(
                f"No `meta.properties` found in {directory} (have you run `ottla format` to format the directory?)"
            )
        path = meta_properties_path(directory)
        cluster_id = cluster_id or properties.cluster_id
        if properties.cluster_id != cluster_id:
            raise ConfigurationError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}"
            )
        if properties.node_id != node_id:
            raise ConfigurationError(
                f"Stored node id {properties.node_id} doesn't match previous node id {node_id} in {path}. If you moved "
                "your data, make sure your configured node id matches. If you intend to create a new node, you should "
                "remove all data in your data directories."
            )
        if properties.directory_id is not None:
            other = paths_by_directory_id.setdefault(properties.directory_id, directory)
            if other != directory:
                raise ConfigurationError(
                    f"Duplicate directory ID {format_uuid(properties.directory_id)} found. It was the ID of {other}, "
                    f"but also of {directory}"
                )

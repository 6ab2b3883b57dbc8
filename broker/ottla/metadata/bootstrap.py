"""Initial metadata of a cluster: ``bootstrap.checkpoint``, written when the storage is formatted.

Source: BootstrapDirectory and BootstrapMetadata of Apache Kafka.
"""

from collections.abc import Mapping
from typing import Final

from ottla.errors import ConfigurationError
from ottla.metadata.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)
from ottla.metadata.records import MetadataRecord, MetadataRecordSerde
from ottla.ports import Clock, Disk
from ottla.raft.snapshot import SnapshotReader, SnapshotWriter
from ottla.types import OffsetAndEpoch
from ottla.wire.messages.metadata_log import FeatureLevelRecord

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_BOOTSTRAP_ID: Final = OffsetAndEpoch(0, 0)

DEFAULT_LEVELS: Final[Mapping[str, tuple[int, int]]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: (26, 1),
    GROUP_VERSION: (22, 1),
    SHARE_VERSION: (28, 1),
    STREAMS_VERSION: (29, 1),
    TRANSACTION_VERSION: (22, 2),
}
"""By feature: the lowest metadata.version at which a new cluster enables it, and the level."""


def bootstrap_records(
    metadata_version: int = LATEST_METADATA_VERSION, features: Mapping[str, int] | None = None
) -> list[MetadataRecord]:
    """Return the feature levels that a new cluster starts with.

    Args:
        metadata_version: level of metadata.version.
        features: levels that the operator chose over the defaults; 0 leaves the feature out.

    Raises:
        ConfigurationError: a feature or level that this release does not have.
    """
    levels = {name: level for name, (since, level) in DEFAULT_LEVELS.items() if metadata_version >= since}
    levels.update(features or {})
    levels[METADATA_VERSION] = metadata_version
    for name, level in levels.items():
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            raise ConfigurationError(f"Unsupported feature: {name}. Supported features are: {_names()}")
        if not supported.first <= level <= supported.last:
            raise ConfigurationError(
                f"feature {name} has level {level}; this release supports {supported.first} to {supported.last}"
            )
    levels.pop(KRAFT_VERSION, None)
    ordered = sorted(levels, key=lambda name: (name != METADATA_VERSION, name))
    return [
        MetadataRecord(FeatureLevelRecord(name=name, feature_level=levels[name]), 0)
        for name in ordered
        if levels[name] > 0
    ]


def _names() -> str:
    return ", ".join(sorted(SUPPORTED_FEATURES))


def parse_release_version(text: str) -> int:
    """Return the level of a metadata.version given as ``4.3-IV0``, ``4.3`` (its last level) or a number.

    Raises:
        ConfigurationError: there is no such version, or this release does not support it.
    """
    if text.isdigit() and int(text) in METADATA_VERSION_NAMES:
        return int(text)
    matching = [
        level for level, name in METADATA_VERSION_NAMES.items() if name == text or name.startswith(f"{text}-IV")
    ]
    if not matching:
        first, last = min(METADATA_VERSION_NAMES), max(METADATA_VERSION_NAMES)
        raise ConfigurationError(
            f"unknown metadata.version {text!r}; this release supports {METADATA_VERSION_NAMES[first]} to "
            f"{METADATA_VERSION_NAMES[last]}"
        )
    return max(matching)


def write_bootstrap(disk: Disk, clock: Clock, directory: str, records: list[MetadataRecord]) -> None:
    """Write ``bootstrap.checkpoint`` into ``directory``.

    Raises:
        StorageError: the disk failed.
    """
    writer = SnapshotWriter(
        disk=disk,
        clock=clock,
        directory=directory,
        snapshot_id=_BOOTSTRAP_ID,
        serde=MetadataRecordSerde(),
        last_contained_log_time_ms=0,
        file_name=BOOTSTRAP_FILE,
    )
    writer.append(records)
    writer.freeze()


def read_bootstrap(disk: Disk, directory: str) -> list[MetadataRecord]:
    """Return the records in the directory's ``bootstrap.checkpoint``; the defaults when there is no such file.

    Raises:
        StorageError: the disk failed, or the file is corrupt.
    """
    path = f"{directory}/{BOOTSTRAP_FILE}"
    if not disk.exists(path):
        return bootstrap_records()
    reader = SnapshotReader.open(disk, path, _BOOTSTRAP_ID, MetadataRecordSerde())
    return [record for batch in reader.batches() for record in batch.records]

"""metadata.version: which records, in which versions, the cluster may write; and the features this release supports.

Source: MetadataVersion and Feature of Apache Kafka 4.3.
"""

from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"


class FeatureRange(NamedTuple):
    """The levels of one feature that a node can work with."""

    first: int
    last: int


SUPPORTED_FEATURES: Final[dict[str, FeatureRange]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
    GROUP_VERSION: FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(7, 30),
    SHARE_VERSION: FeatureRange(0, 1),
    STREAMS_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
}

LATEST_METADATA_VERSION: Final = 30

_RELEASES: Final = (
    (7, "3.3", 3, 1),
    (8, "3.4", 0, 1),
    (9, "3.5", 0, 3),
    (12, "3.6", 0, 3),
    (15, "3.7", 0, 5),
    (20, "3.8", 0, 1),
    (21, "3.9", 0, 1),
    (22, "4.0", 0, 4),
    (26, "4.1", 0, 2),
    (28, "4.2", 0, 2),
    (30, "4.3", 0, 1),
)
"""First level, release, first internal version, number of levels."""

METADATA_VERSION_NAMES: Final[dict[int, str]] = {
    first + step: f"{release}-IV{internal + step}"
    for first, release, internal, count in _RELEASES
    for step in range(count)
}

_MIGRATION_LEVEL: Final = 8
_ISR_SHRINK_WITHOUT_EPOCH_LEVEL: Final = 12
SCRAM_METADATA_VERSION: Final = 11
"""3.5-IV2: the first in which the log may hold SCRAM credentials (KIP-900)."""
DELEGATION_TOKEN_METADATA_VERSION: Final = 14
"""3.6-IV2: the first in which the log may hold delegation tokens."""
TRANSACTIONS_LEVEL: Final = 13
"""From this level on the log may hold transactions of metadata records (KIP-868)."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""From this level on controllers register (KIP-919)."""
METADATA_CHANGED_LEVELS: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels with records or fields that lower levels cannot read: no downgrade crosses them."""
_DIRECTORY_ASSIGNMENT_LEVEL: Final = 17
_ELR_LEVEL: Final = 23
_CORDONED_DIRECTORIES_LEVEL: Final = 30


class RecordVersions(NamedTuple):
    """The versions of the records that changed over time, and their optional fields, at one metadata.version."""

    register_broker: int
    partition: int
    partition_change: int
    supports_directories: bool
    supports_elr: bool
    supports_cordoned_directories: bool
    bumps_leader_epoch_on_isr_shrink: bool


def record_versions(level: int) -> RecordVersions:
    """Return the record versions at metadata.version ``level``."""
    directories = level >= _DIRECTORY_ASSIGNMENT_LEVEL
    elr = level >= _ELR_LEVEL
    cordoned = level >= _CORDONED_DIRECTORIES_LEVEL
    partition = 2 if elr else 1 if directories else 0
    register = 4 if cordoned else 3 if directories else 2 if level >= _MIGRATION_LEVEL else 1
    bumps_epoch = level < _ISR_SHRINK_WITHOUT_EPOCH_LEVEL
    return RecordVersions(register, partition, partition, directories, elr, cordoned, bumps_epoch)

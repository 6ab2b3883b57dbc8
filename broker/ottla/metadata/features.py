"""Finalized features: the levels that every node of the cluster has agreed to use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.metadata.metadata_version import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    RecordVersions,
    record_versions,
)
from ottla.metadata.records import MetadataRecord
from ottla.wire.messages.metadata_log import FeatureLevelRecord


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized levels by feature name, metadata.version included; a feature at level 0 is absent."""

    levels: Mapping[str, int] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """The cluster's level; the lowest that this release knows until the bootstrap records are there."""
        return self.levels.get(METADATA_VERSION, SUPPORTED_FEATURES[METADATA_VERSION].first)

    @property
    def record_versions(self) -> RecordVersions:
        return record_versions(self.metadata_version)

    @property
    def is_elr_enabled(self) -> bool:
        """Whether partitions keep eligible leader replicas (KIP-966)."""
        return self.levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records of this image; metadata.version first, for it decides how the others are written."""
        for name in sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name)):
            yield MetadataRecord(FeatureLevelRecord(name=name, feature_level=self.levels[name]), 0)


class FeaturesDelta:
    """Changes on the way from one `FeaturesImage` to the next. ``changes`` maps a name to its new level."""

    __slots__ = ("changes", "image")

    def __init__(self, image: FeaturesImage) -> None:
        self.image = image
        self.changes: dict[str, int] = {}

    def replay_feature_level(self, record: FeatureLevelRecord) -> None:
        self.changes[record.name] = record.feature_level

    def finish_snapshot(self) -> None:
        """Remove features that the snapshot does not name."""
        for name in self.image.levels:
            self.changes.setdefault(name, 0)

    def apply(self) -> FeaturesImage:
        if not self.changes:
            return self.image
        levels = {**self.image.levels, **self.changes}
        return FeaturesImage({name: level for name, level in levels.items() if level > 0})

"""``spec.features``: which feature levels a Cluster finalizes, and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.document import Document

AFTER_UPGRADE = "AfterUpgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePolicy:
    """Which feature levels to finalize; without any field set, levels stay as they are."""

    follows_upgrades: bool = False
    """Whether to finalize the highest levels of the release once all nodes run it."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels by feature name; they win over the policy."""

    @classmethod
    def parse(cls, spec: Document) -> "FeaturePolicy":
        return cls(
            follows_upgrades=spec.get("policy") == AFTER_UPGRADE, levels=dict(sorted(spec.get("levels", {}).items()))
        )

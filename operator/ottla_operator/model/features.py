"""``spec.features``: which feature levels a Cluster finalizes, and when."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.document import Document

AFTER_UPGRADE = "AfterUpgrade"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePolicy:
    """What to do with features; with nothing said, their levels stay as they are."""

    follows_upgrades: bool = False
    """Once all nodes run the release that is asked for, finalize the highest levels that it has."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Asked for by name; these come before the policy."""

    @classmethod
    def parse(cls, spec: Document) -> "FeaturePolicy":
        return cls(
            follows_upgrades=spec.get("policy") == AFTER_UPGRADE, levels=dict(sorted(spec.get("levels", {}).items()))
        )

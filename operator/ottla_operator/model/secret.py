"""A Secret as a value: entries, and whose it is. The same on every host; see `ports.secret_store`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.manifest import Metadata

OPAQUE = "Opaque"
OWNER_ANNOTATIONS: Mapping[str, str] = {"User": "ottla.dev/user", "Cluster": "ottla.dev/cluster"}
"""The annotation that names the object whose Secret it is, by the object's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A Secret as it is or shall be. Never prints its entries."""

    name: str
    entries: Mapping[str, str] = field(repr=False)
    type: str = field(default=OPAQUE, compare=False)
    """Kubernetes' type of what is written first; a laptop has none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = field(default="", compare=False)
    """Of the object with which the Secret is collected as garbage; empty where nothing is, as on a laptop."""
    version: str = field(default="", compare=False)
    """What changes with each write, of the Secret that is there; empty where there is none, and on a laptop."""

    def belongs_to(self, owner: Metadata) -> bool:
        """Tell whether it was written for ``owner``, and nobody else; others' Secrets are left alone."""
        return self.owners == {owner.kind: owner.name}

    @property
    def owners(self) -> Mapping[str, str]:
        """The name of the object whose Secret it is, by the object's kind; empty where somebody else made it."""
        marks = OWNER_ANNOTATIONS.items()
        return {kind: self.annotations[mark] for kind, mark in marks if mark in self.annotations}

    def covers(self, wanted: "Secret") -> bool:
        """Tell whether this is ``wanted``; labels and annotations that others added do not matter."""
        return (
            self.entries == wanted.entries
            # An object of the same name that was made again has another: the Secret must not go with the old one.
            and self.owner_uid in ("", wanted.owner_uid)
            and self.labels.items() >= wanted.labels.items()
            and self.annotations.items() >= wanted.annotations.items()
        )


def ownership(owner: Metadata) -> dict[str, str]:
    """Return the annotation of Secrets that belong to ``owner``."""
    return {OWNER_ANNOTATIONS[owner.kind]: owner.name}

"""A Secret as a value: entries, labels and owner, the same on every host; see `ports.secret_store`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla_operator.model.manifest import Metadata

OPAQUE = "Opaque"
OWNER_ANNOTATIONS: Mapping[str, str] = {"User": "ottla.dev/user", "Cluster": "ottla.dev/cluster"}
"""The annotation that names the owner of a Secret, by the owner's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A Secret as observed or desired. Never prints its entries."""

    name: str
    entries: Mapping[str, str] = field(repr=False)
    type: str = field(default=OPAQUE, compare=False)
    """The type on Kubernetes, set at creation; a local host has no types."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = field(default="", compare=False)
    """Of the object with which the Secret is garbage-collected; empty without garbage collection, as on a local
    host."""
    has_other_fields: bool = field(default=False, compare=False)
    """Whether other clients added entries or owners to the observed Secret."""
    version: str = field(default="", compare=False)
    """The resourceVersion of the observed Secret; empty for a new one, and on a local host."""

    def belongs_to(self, owner: Metadata) -> bool:
        """Tell whether the operator wrote it for ``owner`` only; other Secrets are left alone."""
        return self.owners == {owner.kind: owner.name}

    @property
    def owners(self) -> Mapping[str, str]:
        """The name of the owner, by its kind; empty if the operator did not write the Secret."""
        marks = OWNER_ANNOTATIONS.items()
        return {kind: self.annotations[mark] for kind, mark in marks if mark in self.annotations}

    def covers(self, wanted: "Secret") -> bool:
        """Tell whether this is ``wanted``; labels and annotations that others added do not matter."""
        return (
            self.entries == wanted.entries
            # A recreated object of the same name has another uid: the Secret must not be collected with the old object.
            and (not self.version or self.owner_uid == wanted.owner_uid)
            and not self.has_other_fields
            and self.labels.items() >= wanted.labels.items()
            and self.annotations.items() >= wanted.annotations.items()
        )


def ownership(owner: Metadata) -> dict[str, str]:
    """Return the annotation of Secrets that belong to ``owner``."""
    return {OWNER_ANNOTATIONS[owner.kind]: owner.name}

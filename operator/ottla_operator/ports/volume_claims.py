"""Claims of volumes as a host observes them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClaim:
    """A claim of a volume that carries this cluster's id."""

    name: str
    uid: str
    node: str
    """The name of the node whose it is."""

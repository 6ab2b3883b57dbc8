"""Volume claims as a host observes them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClaim:
    """A volume claim that carries this cluster's id."""

    name: str
    uid: str
    node: str
    """The name of the node that it belongs to."""

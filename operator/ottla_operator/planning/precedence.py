"""Objects that claim the same topic or principal: the oldest one has it, and all hosts agree which one that is."""

from collections.abc import Iterable
from typing import Protocol

from ottla_operator.model.manifest import Metadata, ObjectKey


class Claimant(Protocol):
    """A Topic or a User."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def claim(self) -> tuple[str, ...]:
        """The key that no two objects may share."""


def older_claim(claimant: Claimant, others: Iterable[Claimant]) -> ObjectKey | None:
    """Return the object with an older claim on the same thing; None without one.

    Age decides, and among objects of the same second their name; ``claimant`` itself may be among ``others``. A claim
    ends when the deletion of its object starts.
    """
    oldest = min([claimant, *_rivals(claimant, others)], key=lambda it: (it.metadata.created_at, it.metadata.key))
    return None if oldest is claimant else oldest.metadata.key


def heir(claimant: Claimant, others: Iterable[Claimant]) -> ObjectKey | None:
    """Return another object with the same claim as ``claimant``, which is being deleted; None without one."""
    return next((it.metadata.key for it in _rivals(claimant, others)), None)


def _rivals(claimant: Claimant, others: Iterable[Claimant]) -> list[Claimant]:
    return [
        other
        for other in others
        if other.metadata.key != claimant.metadata.key
        and not other.metadata.is_deleting
        and other.claim == claimant.claim
    ]

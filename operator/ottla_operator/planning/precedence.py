"""Two objects, one thing (a topic, a user): the older object has it, and both hosts agree which one that is."""

from collections.abc import Iterable
from typing import Protocol

from ottla_operator.model.manifest import Metadata, ObjectKey


class Claimant(Protocol):
    """A Topic or a User."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def claim(self) -> tuple[str, ...]:
        """What it is about; no two objects can have the same."""


def older_claim(claimant: Claimant, others: Iterable[Claimant]) -> ObjectKey | None:
    """Return who else claims what ``claimant`` does with an older right; None when nobody does.

    Age decides, and among objects of the same second their name; ``claimant`` itself may be among ``others``. A claim
    ends when the deletion of its object begins.
    """
    oldest = min([claimant, *_rivals(claimant, others)], key=lambda it: (it.metadata.created_at, it.metadata.key))
    return None if oldest is claimant else oldest.metadata.key


def heir(claimant: Claimant, others: Iterable[Claimant]) -> ObjectKey | None:
    """Return an object that stays and claims what ``claimant``, which goes, has had; None when there is none."""
    return next((it.metadata.key for it in _rivals(claimant, others)), None)


def _rivals(claimant: Claimant, others: Iterable[Claimant]) -> list[Claimant]:
    return [
        other
        for other in others
        if other.metadata.key != claimant.metadata.key
        and not other.metadata.is_deleting
        and other.claim == claimant.claim
    ]

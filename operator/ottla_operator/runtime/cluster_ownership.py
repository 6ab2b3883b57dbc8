"""Which of several installations of the operator looks after a Cluster: what its `status.operator` says.

The candidates of one installation choose their leader by a Lease. Two installations that watch the same namespace know
nothing of each other, and would undo each other's work; so the first that sees a Cluster claims it, and others keep
away from it and from what is in it. Who finds the claim of another asks on the object whether that one is still there
(``challenger``). An operator that lives answers before its next pass; a claim whose challenge stands longer than any
pass may take belongs to nobody any more, and is taken over. Times are of the asking operator's monotonic clock only,
and nothing is written while nobody asks.

Every write is on condition that the object is what was read, so of two operators that take a claim one does.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import ObjectKey

OWNERSHIP_FIELD = "operator"
"""In the status of a Cluster. Not part of what a pass writes: see `controllers.status.StatusWriter`."""

TAKEN_OVER_AFTER_S = 360.0
"""How long a challenge is not answered; more than `workers.PASS_S_MAX`, so the last pass of the other has ended."""

ASKED_AGAIN_AFTER_S = 240.0
"""Less than the time between two resyncs (`Settings.resync_s`), so that each resync challenges again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipClaim:
    """What `status.operator` of a Cluster says."""

    name: str = ""
    """The operator that looks after it, as ``namespace/lease``; empty: nobody does yet."""

    challenger: str = ""
    """Another one, that has asked whether the first is still there."""

    refused: str = ""
    """The one whose question was answered last."""

    refused_at: str = ""

    @classmethod
    def of(cls, document: Document) -> "OwnershipClaim":
        """Return the claim that a Cluster's status holds."""
        found = (document.get("status") or {}).get(OWNERSHIP_FIELD) or {}
        return cls(
            name=found.get("name", ""),
            challenger=found.get("challenger", ""),
            refused=found.get("refused", ""),
            refused_at=found.get("refusedAt", ""),
        )

    def to_patch(self) -> Document:
        """Return the merge patch (RFC 7386) of the status that makes this the claim."""
        return {
            OWNERSHIP_FIELD: {
                "name": self.name or None,
                "challenger": self.challenger or None,
                "refused": self.refused or None,
                "refusedAt": self.refused_at or None,
            }
        }


class Ownership(Enum):
    """How an operator stands to a Cluster."""

    OURS = auto()
    ASKED = auto()
    """Somebody else's, who may be gone: it is asked, and not answered yet."""

    THEIRS = auto()


class ClusterOwnership:
    """The claims of other operators as the one called ``name`` has seen them; without a name there are no others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: dict[ObjectKey, tuple[OwnershipClaim, float]] = {}
        """Claims of others, and since when each has been seen to stand."""

    def forget(self, key: ObjectKey) -> None:
        """Forget a Cluster that is gone."""
        self._seen.pop(key, None)

    def is_others(self, document: Document) -> bool:
        """Tell whether another operator looks after the Cluster; it may be gone."""
        return bool(self.name) and OwnershipClaim.of(document).name not in ("", self.name)

    def observe_claim(
        self, key: ObjectKey, claim: OwnershipClaim, *, now_s: float, now: str
    ) -> tuple[Ownership, OwnershipClaim]:
        """Return how this operator stands to a Cluster, and what its claim should be made before anything else.

        Args:
            key: of the Cluster.
            claim: what its status says.
            now_s: the time, by a monotonic clock of this process.
            now: the same for people, as RFC 3339.
        """
        if not self.name:
            return Ownership.OURS, claim
        if claim.name in ("", self.name):
            self.forget(key)
            if not claim.challenger:
                return Ownership.OURS, replace(claim, name=self.name)
            return Ownership.OURS, OwnershipClaim(name=self.name, refused=claim.challenger, refused_at=now)
        before, since_s = self._seen.get(key, (None, now_s))
        if before is None or (before.name, before.challenger) != (claim.name, claim.challenger):
            since_s = now_s
        self._seen[key] = claim, since_s
        return self._observe_other_claim(claim, now_s - since_s, is_first=before is None)

    def _observe_other_claim(
        self, claim: OwnershipClaim, stood_s: float, *, is_first: bool
    ) -> tuple[Ownership, OwnershipClaim]:
        ask = Ownership.ASKED, replace(claim, challenger=self.name)
        if claim.challenger == self.name:
            return (Ownership.OURS, OwnershipClaim(name=self.name)) if stood_s >= TAKEN_OVER_AFTER_S else ask
        if not claim.challenger:
            return ask if is_first or stood_s >= ASKED_AGAIN_AFTER_S else (Ownership.THEIRS, claim)
        # A third one asks; unless it is gone itself, it ends this.
        return ask if stood_s >= 2 * TAKEN_OVER_AFTER_S else (Ownership.THEIRS, claim)


def describe_ownership(key: ObjectKey, claim: OwnershipClaim, ownership: Ownership, name: str) -> str:
    """Say why the operator called ``name`` does nothing for a Cluster, and what to do."""
    if ownership is Ownership.ASKED:
        return (
            f"{claim.name} looks after {key}; {name} asks whether it is still there, and takes over when nobody has "
            f"answered for {TAKEN_OVER_AFTER_S:.0f} s"
        )
    return (
        f"{claim.name} looks after {key}, and so {name} does not; give each operator namespaces of its own "
        f"(watchNamespaces), or remove one of them"
    )

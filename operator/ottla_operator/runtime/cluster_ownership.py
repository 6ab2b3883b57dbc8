"""Ownership of a Cluster among several installations of the operator, by its `status.operator`.

The candidates of one installation elect their leader by a Lease. Two installations that watch the same namespace do not
know each other, and would undo each other's work; so the first that observes a Cluster claims it, and others keep away
from it and from its Topics and Users. An operator that finds another's claim challenges it on the object
(``challenger``). A running owner rejects the challenge before its next reconciliation; a claim whose challenge stands
longer than any reconciliation may take has no owner any more, and is taken over. Durations are of the challenger's
monotonic clock only, and nothing is written without a challenge.

Every write is conditional on the version that was read, so of two operators that take a claim one succeeds.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from ottla_operator.model.document import Document
from ottla_operator.model.manifest import ObjectKey

OWNERSHIP_FIELD = "operator"
"""In the status of a Cluster. Reconciliations do not write it: see `controllers.status.StatusWriter`."""

TAKEOVER_AFTER_S = 360.0
"""How long a challenge stands before a takeover; more than `workers.RECONCILE_S_MAX`, so the owner's last
reconciliation has ended."""

CHALLENGE_AGAIN_AFTER_S = 240.0
"""Less than the time between two resyncs (`Settings.resync_s`), so that each resync challenges again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipClaim:
    """The claim in `status.operator` of a Cluster."""

    name: str = ""
    """The operator that owns it, as ``namespace/lease``; empty: none does yet."""

    challenger: str = ""
    """Another operator, which has challenged the claim."""

    rejected: str = ""
    """The challenger whose challenge was rejected last."""

    rejected_at: str = ""

    @classmethod
    def parse(cls, document: Document) -> "OwnershipClaim":
        """Return the claim in a Cluster's status."""
        found = (document.get("status") or {}).get(OWNERSHIP_FIELD) or {}
        return cls(
            name=found.get("name", ""),
            challenger=found.get("challenger", ""),
            rejected=found.get("refused", ""),
            rejected_at=found.get("refusedAt", ""),
        )

    def to_patch(self) -> Document:
        """Return the merge patch (RFC 7386) of the status that makes this the claim."""
        return {
            OWNERSHIP_FIELD: {
                "name": self.name or None,
                "challenger": self.challenger or None,
                "refused": self.rejected or None,
                "refusedAt": self.rejected_at or None,
            }
        }


class Ownership(Enum):
    """Whether an operator owns a Cluster."""

    OURS = auto()
    CHALLENGED = auto()
    """Another operator's, which may be gone: the claim is challenged, and the challenge not rejected yet."""

    THEIRS = auto()


class ClusterOwnership:
    """The claims of other operators as observed by the one called ``name``; without a name there are no others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: dict[ObjectKey, tuple[OwnershipClaim, float]] = {}
        """Claims of others, and the time since when each stands unchanged."""

    def remove(self, key: ObjectKey) -> None:
        """Drop the claim of a deleted Cluster."""
        self._seen.pop(key, None)

    def is_others(self, document: Document) -> bool:
        """Tell whether another operator owns the Cluster; that operator may be gone."""
        return bool(self.name) and OwnershipClaim.parse(document).name not in ("", self.name)

    def observe_claim(
        self, key: ObjectKey, claim: OwnershipClaim, *, now_s: float, now: str
    ) -> tuple[Ownership, OwnershipClaim]:
        """Return whether this operator owns a Cluster, and the claim to write before anything else.

        Args:
            key: of the Cluster.
            claim: from its status.
            now_s: the time, by a monotonic clock of this process.
            now: the same time as RFC 3339.
        """
        if not self.name:
            return Ownership.OURS, claim
        if claim.name in ("", self.name):
            self.remove(key)
            if not claim.challenger:
                return Ownership.OURS, replace(claim, name=self.name)
            return Ownership.OURS, OwnershipClaim(name=self.name, rejected=claim.challenger, rejected_at=now)
        before, since_s = self._seen.get(key, (None, now_s))
        if before is None or (before.name, before.challenger) != (claim.name, claim.challenger):
            since_s = now_s
        self._seen[key] = claim, since_s
        return self._observe_other_claim(claim, now_s - since_s, is_first=before is None)

    def _observe_other_claim(
        self, claim: OwnershipClaim, stood_s: float, *, is_first: bool
    ) -> tuple[Ownership, OwnershipClaim]:
        challenge = Ownership.CHALLENGED, replace(claim, challenger=self.name)
        if claim.challenger == self.name:
            return (Ownership.OURS, OwnershipClaim(name=self.name)) if stood_s >= TAKEOVER_AFTER_S else challenge
        if not claim.challenger:
            return challenge if is_first or stood_s >= CHALLENGE_AGAIN_AFTER_S else (Ownership.THEIRS, claim)
        # Another challenger comes first; this one challenges only if that one seems to be gone, too.
        return challenge if stood_s >= 2 * TAKEOVER_AFTER_S else (Ownership.THEIRS, claim)


def describe_ownership(key: ObjectKey, claim: OwnershipClaim, ownership: Ownership, name: str) -> str:
    """Explain why the operator called ``name`` does not reconcile a Cluster, and what to do."""
    if ownership is Ownership.CHALLENGED:
        return (
            f"{claim.name} owns {key}; {name} has challenged its claim, and takes over unless it is rejected within "
            f"{TAKEOVER_AFTER_S:.0f} s"
        )
    return (
        f"{claim.name} owns {key}, so {name} does not reconcile it; give each operator namespaces of its own "
        f"(watchNamespaces), or remove one of them"
    )

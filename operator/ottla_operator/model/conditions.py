"""The conditions of every object of the operator, as kstatus, Argo CD and users read them.

=======  ===========  ===========  =======  ==========================================================
Ready    Progressing  Reconciling  Stalled  meaning
=======  ===========  ===========  =======  ==========================================================
True     False        -            -        the object matches its spec
True     True         True         -        it matches and serves; a slow operation, as a new key, is going on
False    True         True         -        in progress, or waiting for something that the message names
False    False        -            True     waiting does not help: the message names what to change
False    False        -            -        it does not match, and stays so on request: `paused`
Unknown  True         True         -        accepted, not reconciled yet
=======  ===========  ===========  =======  ==========================================================

Ready, Progressing, Degraded and Paused are always present; Reconciling and Stalled only while they are True (-:
absent). Degraded is independent of the others: capacity or redundancy is below the spec, and not because of one of the
operator's own operations.

Source: kubernetes-sigs/cli-utils, pkg/kstatus/README.md (abnormal-true Reconciling and Stalled).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ottla_operator.model.document import Document

Condition: TypeAlias = Document


@dataclass(frozen=True, slots=True)
class Reached:
    """The object matches its spec."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Underway:
    """The object matches its spec, or serves as if it did, while a slow operation is in progress."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The object does not match its spec yet; the same manifest will be applied later."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The spec cannot be satisfied; the user must edit it or fix the cluster."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Halted:
    """The operation stopped before it does harm; the user must edit the manifest or fix the cluster.

    Unlike `Rejected` it may follow from steps that are done, and it is reconciled again like `Waiting`.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Held:
    """The object does not match its spec, and stays so while ``spec.paused`` is true."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """No reconciliation has observed the object yet."""

    reason: str = "Accepted"
    message: str = "waiting for the first reconciliation"


AUTHORITY_CHANGING = "AuthorityChanging"
"""The reason of a Cluster that waits until all nodes and clients trust a new authority."""

AUTHORITY_OVERLAP = "AuthorityOverlap"
"""The reason of a Cluster with two trusted authorities in which nothing is left to do until a known time."""

QUORUM_LOST = "QuorumLost"
"""The reason of objects that wait for a leader of the metadata quorum, and of a Cluster without one."""

Readiness = Reached | Underway | Waiting | Rejected | Halted | Held | Accepted

Obstacle = Waiting | Underway | Rejected | Halted
"""Why a plan stops short of the spec."""


@dataclass(frozen=True, slots=True)
class Degradation:
    """Capacity or redundancy that is below the spec, and why."""

    reason: str
    message: str


_Status = Literal["True", "False", "Unknown"]

# Ready, Progressing (and Reconciling), Stalled.
_TABLE: dict[type[Readiness], tuple[_Status, bool, bool]] = {
    Reached: ("True", False, False),
    Underway: ("True", True, False),
    Waiting: ("False", True, False),
    Rejected: ("False", False, True),
    Halted: ("False", False, True),
    Held: ("False", False, False),
    Accepted: ("Unknown", True, False),
}


def conditions(
    readiness: Readiness,
    *,
    generation: int,
    previous: list[Condition],
    now: str,
    degradation: Degradation | None = None,
    is_paused: bool = False,
) -> list[Condition]:
    """Return Ready, Progressing, Degraded and Paused, then Reconciling or Stalled while one of them is True.

    A spec that is rejected after the object has been ready is Degraded, whatever ``degradation`` says: it is not
    served. ``lastTransitionTime`` is ``now`` (RFC 3339) only where the status differs from ``previous``, so that an
    unchanged readiness is an unchanged list and need not be written.
    """
    since = {condition["type"]: condition for condition in previous}
    ready, is_progressing, is_stalled_now = _TABLE[type(readiness)]
    if degradation is None and isinstance(readiness, Rejected) and _has_been_ready(since):
        degradation = Degradation(readiness.reason, readiness.message)

    def condition(name: str, status: _Status, reason: str, message: str) -> Condition:
        before = since.get(name)
        return {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == status else now,
        }

    def flag(name: str, why: Readiness | Degradation | None) -> Condition:
        if why is None:
            return condition(name, "False", f"Not{name}", "")
        return condition(name, "True", why.reason, why.message)

    paused = Held("SpecPaused", "nothing is changed while spec.paused is true") if is_paused else None

    result = [
        condition("Ready", ready, readiness.reason, readiness.message),
        flag("Progressing", readiness if is_progressing else None),
        flag("Degraded", degradation),
        flag("Paused", paused),
    ]
    result += [flag("Reconciling", readiness)] if is_progressing else []
    result += [flag("Stalled", readiness)] if is_stalled_now else []
    return result


def _has_been_ready(since: Mapping[str, Condition]) -> bool:
    return any(since.get(name, {}).get("status") == "True" for name in ("Ready", "Degraded"))


def known_degradation(previous: list[Condition]) -> Degradation | None:
    """Return reason and message of the condition Degraded; None unless it is True."""
    found = (it for it in previous if it["type"] == "Degraded" and it["status"] == "True")
    return next((Degradation(it["reason"], it["message"]) for it in found), None)


def is_stalled(document: Document) -> bool:
    """Tell whether the latest status of a stored object says that it waits for a change by the user."""
    status = document.get("status", {})
    is_seen = status.get("observedGeneration") == document["metadata"].get("generation", 1)
    return is_seen and any(it["type"] == "Stalled" and it["status"] == "True" for it in status.get("conditions", []))


def ready_condition(document: Document) -> Condition | None:
    """Return the Ready condition of a stored object; None before its first reconciliation."""
    for condition in document.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return dict(condition)
    return None

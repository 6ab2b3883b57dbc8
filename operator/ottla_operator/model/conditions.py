"""The conditions of every object of ours, as kstatus, Argo CD and people read them.

=======  ===========  ===========  =======  ==========================================================
Ready    Progressing  Reconciling  Stalled  meaning
=======  ===========  ===========  =======  ==========================================================
True     False        -            -        it is what the spec asks
True     True         True         -        it is, and serves, while something slow goes on, such as another key
False    True         True         -        on the way, or waiting for something that the message names
False    False        -            True     it will not become so by waiting: the message says what to change
False    False        -            -        it is not, and somebody has said that it shall wait: `paused`
Unknown  True         True         -        accepted, not looked at yet
=======  ===========  ===========  =======  ==========================================================

Ready, Progressing, Degraded and Paused are there always; Reconciling and Stalled only while they are True (-: absent).
Degraded is independent of the others: less serves than should, or redundancy is lost, and not because the operator is
at it on purpose.

Source: kubernetes-sigs/cli-utils, pkg/kstatus/README.md (abnormal-true Reconciling and Stalled).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ottla_operator.model.document import Document

Condition: TypeAlias = Document


@dataclass(frozen=True, slots=True)
class Reached:
    """The object is what its spec asks."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Underway:
    """It is what its spec asks, or serves as if it were, while something goes on that takes its time."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """It is not yet; the same manifest will do, later."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It will not be; somebody must change the manifest or the world."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Halted:
    """It was on the way and has stopped there, before it does harm; somebody must change the manifest or the world.

    Unlike `Refused` it may come out of what was done so far, and is looked at again as what waits is.
    """

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Held:
    """It is not yet, and stays as it is until somebody says otherwise (``spec.paused``)."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Nobody has looked yet."""

    reason: str = "Accepted"
    message: str = "waiting for the first look at the cluster"


AUTHORITY_CHANGING = "AuthorityChanging"
"""The reason of a Cluster that waits until everybody knows a new authority."""

QUORUM_LOST = "QuorumLost"
"""The reason of what waits for a leader of the metadata quorum, and of a Cluster that has none."""

Readiness = Reached | Underway | Waiting | Refused | Halted | Held | Accepted

Obstacle = Waiting | Underway | Refused | Halted
"""Why a plan does not lead all the way."""


@dataclass(frozen=True, slots=True)
class Degradation:
    """What is less than it should be, and why."""

    reason: str
    message: str


_Status = Literal["True", "False", "Unknown"]

# Ready, Progressing (and Reconciling), Stalled.
_TABLE: dict[type[Readiness], tuple[_Status, bool, bool]] = {
    Reached: ("True", False, False),
    Underway: ("True", True, False),
    Waiting: ("False", True, False),
    Refused: ("False", False, True),
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

    What is refused after it has been ready is degraded, whatever ``degradation`` says: the spec is not served.
    ``lastTransitionTime`` is ``now`` (RFC 3339) only where the status differs from ``previous``, so that an
    unchanged readiness is an unchanged list and need not be written.
    """
    since = {condition["type"]: condition for condition in previous}
    ready, is_progressing, is_stalled_now = _TABLE[type(readiness)]
    if degradation is None and isinstance(readiness, Refused) and _has_been_ready(since):
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
    """Return what the condition Degraded says; None where it is not True."""
    found = (it for it in previous if it["type"] == "Degraded" and it["status"] == "True")
    return next((Degradation(it["reason"], it["message"]) for it in found), None)


def is_stalled(document: Document) -> bool:
    """Tell whether a stored object waits for somebody to change it, or the world, as it was last seen."""
    status = document.get("status", {})
    is_seen = status.get("observedGeneration") == document["metadata"].get("generation", 1)
    return is_seen and any(it["type"] == "Stalled" and it["status"] == "True" for it in status.get("conditions", []))


def ready_condition(document: Document) -> Condition | None:
    """Return the Ready condition of a stored object; None before anyone has looked."""
    for condition in document.get("status", {}).get("conditions", []):
        if condition["type"] == "Ready":
            return dict(condition)
    return None

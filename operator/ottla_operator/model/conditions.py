"""The three conditions of every object of ours, as kstatus and people read them.

========  ===========  ========  ==========================================================
Ready     Reconciling  Stalled   meaning
========  ===========  ========  ==========================================================
True      False        False     it is what the spec asks
True      True         False     it is, and serves, while something slow goes on: an authority changes its key
False     True         False     on the way, or waiting for something that the message names
False     False        True      it will not become so by waiting: the message says what to change
Unknown   True         False     accepted, not looked at yet
========  ===========  ========  ==========================================================

Source: kubernetes-sigs/cli-utils, pkg/kstatus/README.md (abnormal-true Reconciling and Stalled).
"""

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
class Accepted:
    """Nobody has looked yet."""

    reason: str = "Accepted"
    message: str = "waiting for the first look at the cluster"


AUTHORITY_CHANGING = "AuthorityChanging"
"""The reason of a Cluster that waits until everybody knows a new authority."""

Verdict = Reached | Underway | Waiting | Refused | Accepted

_Status = Literal["True", "False", "Unknown"]

_TABLE: dict[type[Verdict], tuple[_Status, _Status, _Status]] = {
    Reached: ("True", "False", "False"),
    Underway: ("True", "True", "False"),
    Waiting: ("False", "True", "False"),
    Refused: ("False", "False", "True"),
    Accepted: ("Unknown", "True", "False"),
}


def conditions(verdict: Verdict, *, generation: int, previous: list[Condition], now: str) -> list[Condition]:
    """Return Ready, Reconciling and Stalled, in this order.

    ``lastTransitionTime`` is ``now`` (RFC 3339) only where the status differs from ``previous``, so that an
    unchanged verdict is an unchanged list and need not be written.
    """
    since = {condition["type"]: condition for condition in previous}
    ready, reconciling, stalled = _TABLE[type(verdict)]
    result = []
    for name, status in (("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled)):
        before = since.get(name)
        speaks = name == "Ready" or status == "True"
        result.append(
            {
                "type": name,
                "status": status,
                "reason": verdict.reason if speaks else f"Not{name}",
                "message": verdict.message if speaks else "",
                "observedGeneration": generation,
                "lastTransitionTime": before["lastTransitionTime"] if before and before["status"] == status else now,
            }
        )
    return result


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

"""The result of one reconciliation, and the status that it leads to. Pure."""

from dataclasses import dataclass

from ottla_operator.model.conditions import Degradation, Readiness, conditions, known_degradation
from ottla_operator.model.document import Document
from ottla_operator.planning.plan import Step


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What one pass did and found."""

    readiness: Readiness
    facts: Document
    """Status fields that were observed, in the CRD's names; those that could not be observed are absent, and those that
    are not there any more are None."""
    done: tuple[Step, ...] = ()
    planned: tuple[Step, ...] = ()
    """With ``dry_run``: the steps that would have been done."""
    degradation: Degradation | None = None
    is_seen: bool = True
    """Whether the object was looked at, so that ``degradation`` counts; else it is what it was before."""


def status(document: Document, outcome: ReconcileResult, *, now: str) -> Document:
    """Return the whole new status of ``document``; equal to its present one when nothing changed.

    Facts that this pass could not observe stay as they were last seen.
    """
    before = document.get("status", {})
    generation, previous = document["metadata"].get("generation", 1), before.get("conditions", [])
    facts = {key: value for key, value in {**before, **outcome.facts}.items() if value is not None}
    return {
        **facts,
        "observedGeneration": generation,
        "conditions": conditions(
            outcome.readiness,
            generation=generation,
            previous=previous,
            now=now,
            degradation=outcome.degradation if outcome.is_seen else known_degradation(previous),
            is_paused=document["spec"].get("paused", False),
        ),
    }

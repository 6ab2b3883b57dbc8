"""The result of one reconciliation, and the status that it leads to. Pure."""

from dataclasses import dataclass

from ottla_operator.model.conditions import Degradation, Readiness, conditions, known_degradation
from ottla_operator.model.document import Document
from ottla_operator.planning.plan import Step


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """Result of one reconciliation."""

    readiness: Readiness
    facts: Document
    """Observed status fields, by the CRD's names; fields that could not be observed are absent, and those without a
    value any more are None."""
    done: tuple[Step, ...] = ()
    planned: tuple[Step, ...] = ()
    """With ``dry_run``: the steps that would have been executed."""
    degradation: Degradation | None = None
    is_seen: bool = True
    """Whether the object was observed, so that ``degradation`` counts; else the former one is kept."""
    wake_at: str = ""
    """RFC 3339, UTC: when something ends that the object depends on; "" if nothing does."""


def status(document: Document, outcome: ReconcileResult, *, now: str) -> Document:
    """Return the whole new status of ``document``; equal to its present one if nothing changed.

    Fields that this reconciliation could not observe keep their last values.
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

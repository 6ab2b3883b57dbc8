"""Operations in progress in a cluster, and their record in ``status.operation``.

A planner builds an `Operation` from the observed state; the reconciler turns it into a `Record`, which is written
before the first step and removed once no operation is in progress. The record keeps facts that cannot be observed
again: when the operation started, how much there was to do, how often a step was tried. It is no plan: each
reconciliation observes the cluster again.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ottla_operator.model.document import Document

BLOCKERS_MAX = 3
"""How many of the partitions, nodes or voters that an operation waits for are named."""


class OperationKind(StrEnum):
    ROLL = "Roll"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    VOTER_CHANGE = "VoterChange"
    REBALANCE = "Rebalance"
    REASSIGNMENT = "Reassignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation in progress: the same observation gives the same operation."""

    kind: OperationKind
    target: str
    """Identifies the goal: another target is another operation."""
    step: str
    """CamelCase: the step in progress, or the wait."""
    message: str
    """For people: the step in progress, its reason, and the next one."""
    nodes: tuple[str, ...] = ()
    """The nodes that the operation works on; they are unavailable on purpose."""
    left: int = 0
    """Number of nodes, partitions or voters that are still to be done."""
    blocked_by: tuple[str, ...] = ()
    """Partitions, nodes or voters that the operation waits for; truncated to `BLOCKERS_MAX` in the record."""
    generation: int = 0
    """Generation of the spec that it was planned from."""
    takes_step: bool = False
    """Whether the plan contains a step of the operation, and not only waits."""

    @property
    def id(self) -> str:
        """Derived from kind and target only."""
        return f"{self.kind.lower()}-{hashlib.sha256(self.target.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An operation with the facts that are kept about it."""

    id: str
    kind: OperationKind
    step: str
    message: str
    nodes: tuple[str, ...]
    done: int
    total: int
    blocked_by: tuple[str, ...]
    attempts: int
    """How often a step was taken at these nodes; 0 while the operation only waits."""
    started_at: str
    """RFC 3339, UTC."""
    step_started_at: str
    generation: int

    @classmethod
    def parse(cls, document: Document) -> Self:
        """Return the record in ``status.operation``; fields that another version of the operator left out are empty."""
        return cls(
            id=document["id"],
            kind=OperationKind(document["kind"]),
            step=document.get("step", ""),
            message=document.get("message", ""),
            nodes=tuple(filter(None, document.get("node", "").split(","))),
            done=document.get("done", 0),
            total=document.get("total", 0),
            blocked_by=tuple(document.get("blockedBy", ())),
            attempts=document.get("attempts", 0),
            started_at=document.get("startedAt", ""),
            step_started_at=document.get("stepStartedAt", ""),
            generation=document.get("generation", 0),
        )

    def as_document(self) -> Document:
        document: Document = {
            "id": self.id,
            "kind": str(self.kind),
            "step": self.step,
            "node": ",".join(self.nodes),
            "startedAt": self.started_at,
            "stepStartedAt": self.step_started_at,
            "done": self.done,
            "total": self.total,
            "attempts": self.attempts,
            "blockedBy": list(self.blocked_by),
            "message": self.message,
            "generation": self.generation,
        }
        return {key: value for key, value in document.items() if value not in ("", [])}


def follow(record: Record | None, operation: Operation | None, *, now: str) -> Record | None:
    """Return the next record, from ``record`` and the observed ``operation``; None if no operation is in progress.

    Args:
        record: as last written.
        operation: as observed now.
        now: RFC 3339, UTC.
    """
    if operation is None:
        return None
    known = record if record is not None and record.id == operation.id else None
    total = max(known.total, known.done + operation.left) if known is not None else operation.left
    is_same_step = known is not None and (known.step, known.nodes) == (operation.step, operation.nodes)
    is_same_try = known is not None and (known.nodes == operation.nodes if operation.nodes else is_same_step)
    attempts = known.attempts if known is not None and is_same_try else 0
    return Record(
        id=operation.id,
        kind=operation.kind,
        step=operation.step,
        message=operation.message,
        nodes=operation.nodes,
        done=total - operation.left,
        total=total,
        blocked_by=operation.blocked_by[:BLOCKERS_MAX],
        attempts=attempts + operation.takes_step,
        started_at=known.started_at if known is not None else now,
        # A step that is repeated, because an operator ended in between, gets the full time again.
        step_started_at=known.step_started_at
        if known is not None and is_same_step and not operation.takes_step
        else now,
        generation=operation.generation,
    )


def parse_record(status: Document) -> Record | None:
    """Return the record in the status of a Cluster; None without one, or if its kind is unknown."""
    found = status.get("operation")
    return Record.parse(found) if found and found.get("kind") in set(OperationKind) else None

"""What is under way in a cluster: what a planner says of it, and the record of it (``status.operation``).

A planner makes an `Operation` from what it sees; the reconciler makes a `Record` of it, which is written before the
first step and taken away when no operation goes on any more. The record keeps what cannot be seen again: when the
operation began, how much there was to do, how often a step was tried. It is no plan: whoever reads it looks again.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ottla_operator.model.document import Document

BLOCKERS_MAX = 3
"""So many of those that are waited for are named."""


class OperationKind(StrEnum):
    ROLL = "Roll"
    SCALE_UP = "ScaleUp"
    SCALE_DOWN = "ScaleDown"
    VOTER_CHANGE = "VoterChange"
    REBALANCE = "Rebalance"
    REASSIGNMENT = "Reassignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What goes on, as it is seen: the same picture gives the same operation."""

    kind: OperationKind
    target: str
    """What it leads to, as any text: another target is another operation."""
    step: str
    """CamelCase: what is done or waited for now."""
    message: str
    """For people: what is done now, why, and how it goes on."""
    nodes: tuple[str, ...] = ()
    """The nodes that it is at; what they lack is so on purpose."""
    left: int = 0
    """How many nodes, partitions or voters are still to be done."""
    blocked_by: tuple[str, ...] = ()
    """Partitions, nodes or voters that are waited for; more than `BLOCKERS_MAX` are cut off."""
    generation: int = 0
    """Of the spec that it was seen with."""
    takes_step: bool = False
    """Whether the plan has a step of it, and not only waits."""

    @property
    def id(self) -> str:
        """The same for the same kind and target, whoever asks."""
        return f"{self.kind.lower()}-{hashlib.sha256(self.target.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An operation and what is remembered of it."""

    id: str
    kind: OperationKind
    step: str
    message: str
    nodes: tuple[str, ...]
    done: int
    total: int
    blocked_by: tuple[str, ...]
    attempts: int
    """How often a step was taken at these nodes; 0 while it is only waited."""
    started_at: str
    """RFC 3339, UTC."""
    step_started_at: str
    generation: int

    @classmethod
    def parse(cls, document: Document) -> Self:
        """Return the record in ``status.operation``; what an operator of another version left out is empty."""
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
    """Return the record of ``operation``, where ``record`` is what was known; None when nothing goes on.

    Args:
        record: as it was written last.
        operation: as it is seen now.
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
        # Who is started once more, because an operator ended in between, has all the time again to come up.
        step_started_at=known.step_started_at
        if known is not None and is_same_step and not operation.takes_step
        else now,
        generation=operation.generation,
    )


def parse_record(status: Document) -> Record | None:
    """Return the record in the status of a Cluster; None when there is none, or of a kind that nobody knows."""
    found = status.get("operation")
    return Record.parse(found) if found and found.get("kind") in set(OperationKind) else None

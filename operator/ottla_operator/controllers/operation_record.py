"""Writes the record of an operation in progress, before its steps and at the end of a reconciliation."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from ottla_operator.model.document import Document
from ottla_operator.model.operation import Operation, Record, follow


@dataclass
class OperationRecorder:
    """The record of one cluster's operation; ``write`` stores status fields before the step that needs them."""

    now: Callable[[], str]
    """RFC 3339, UTC."""
    write: Callable[[Document], Awaitable[None]]
    record: Record | None = None
    """As last written."""
    kept: Document = field(default_factory=dict)
    """Other status fields, as last written."""

    @classmethod
    def discarding(cls) -> Self:
        """Return a recorder that stores nothing."""

        async def discard(_: Document) -> None:
            pass

        return cls(lambda: "", discard)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the recorded operation works on."""
        return self.record.nodes if self.record is not None else ()

    @property
    def step_age_s(self) -> float:
        """How long the recorded operation has been at its step."""
        started = self.record.step_started_at if self.record is not None else ""
        if not started:
            return 0.0
        return (datetime.fromisoformat(self.now()) - datetime.fromisoformat(started)).total_seconds()

    async def record_before_steps(self, operation: Operation | None, facts: Document | None = None) -> None:
        """Write the record of ``operation``, a step of which is next, and ``facts``, unless they are stored already."""
        record = follow(self.record, operation, now=self.now())
        new = facts or {}
        fields = {key: value for key, value in new.items() if value is not None and value != self.kept.get(key)}
        self.kept = {**self.kept, **fields}
        if operation is not None and operation.takes_step and record is not None and record != self.record:
            fields["operation"] = record.as_document()
        if fields:
            await self.write(fields)
        if "operation" in fields:
            self.record = record

    def facts(self, operation: Operation | None) -> Document:
        """Return the status fields at the end of a reconciliation with ``operation``; None removes a field."""
        waited = None if operation is None else replace(operation, takes_step=False)
        record = follow(self.record, waited, now=self.now())
        return {"operation": None if record is None else record.as_document()}

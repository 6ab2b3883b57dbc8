"""`CoordinatorResult`: what an operation on a shard has decided to write.

Source: CoordinatorResult of Apache Kafka's coordinator-common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from ottla.errors import ErrorCode

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")
OtherT = TypeVar("OtherT")


@dataclass(slots=True, kw_only=True)
class CoordinatorResult(Generic[RecordT, ResponseT]):
    """Records to append, and the response for when they are committed.

    Attributes:
        records: those of an atomic result are one batch; those of another may be several, and a rejected batch of it
            does not keep the next one from being written.
        response: for the client.
        is_replayed: whether the shard replays the records once the log has taken them; false where memory is ahead of
            the log already, as that of a classic group is.
        apply: changes the shard instead of the replay, once the log has taken the records: for state of which the log
            has only a part. Only for atomic results.
        is_atomic: see ``records``.
        on_append: called with the outcome of the write (NONE when committed, else the error for the client); may return
            what to write next. Only for atomic results.
    """

    records: list[RecordT] = field(default_factory=list)
    response: ResponseT
    is_replayed: bool = True
    apply: "Callable[[], None] | None" = None
    is_atomic: bool = True
    on_append: "Callable[[ErrorCode], CoordinatorResult[RecordT, None] | None] | None" = None

    def with_response(self, response: OtherT) -> "CoordinatorResult[RecordT, OtherT]":
        """Return the same records with another response."""
        return replace(self, response=response)  # type: ignore[arg-type, return-value]

"""`ControllerResult`: the result of a decision."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord
from ottla.types import Offset

RECORDS_PER_BATCH_MAX: Final = 10_000
"""Limit of records in one batch, which is replayed as a whole or not at all."""

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResponseT_co]):
    """``records`` to append, and the ``response`` to send once they are committed.

    Records of an atomic result are one batch. Those of another are several, each of which is valid by itself. An
    iterator decides each record on the state that has those before it, with no other decision in between; it yields
    None where it decides that nothing changes. ``on_appended`` is called with the offset of the last record, before it
    is committed.
    """

    response: ResponseT_co
    records: Iterable[MetadataRecord | None] = ()
    is_atomic: bool = True
    on_appended: Callable[[Offset], object] | None = None


def check_record_count(records: list[MetadataRecord]) -> None:
    """Reject a request with more records than fit one batch.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

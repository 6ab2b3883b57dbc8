"""`ControllerResult`: the result of a decision."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord

RECORDS_PER_BATCH_MAX: Final = 10_000
"""Limit of records in one batch, which is replayed as a whole or not at all."""

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResponseT_co]):
    """``records`` to append, and the ``response`` to send once they are committed.

    Records of an atomic result are one batch; those of another may be several, each of which is valid by itself.
    """

    response: ResponseT_co
    records: list[MetadataRecord] = field(default_factory=list)
    is_atomic: bool = True


def check_record_count(records: list[MetadataRecord]) -> None:
    """Reject a request with more records than fit one batch.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

"""`ControllerResult`: what a decision comes to."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord

RECORDS_PER_BATCH_MAX: Final = 10_000
"""So many records may be one batch, which counts as a whole or not at all."""

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResponseT_co]):
    """``records`` to append, and the ``response`` to give once they are committed.

    Records of an atomic result are one batch; those of another may be several, each of which makes sense by itself.
    """

    response: ResponseT_co
    records: list[MetadataRecord] = field(default_factory=list)
    is_atomic: bool = True


def check_record_count(records: list[MetadataRecord]) -> None:
    """Refuse a request that makes more records than one batch may have.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

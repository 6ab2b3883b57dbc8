"""`ControllerResult`: what a decision comes to."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ottla.metadata.records import MetadataRecord

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[ResponseT_co]):
    """``records`` to append as one batch, and the ``response`` to give once they are committed."""

    response: ResponseT_co
    records: list[MetadataRecord] = field(default_factory=list)

"""An operation that needs another producer id says so, and is decided again when there is one.

Ids come from the controller in blocks, so that one may not be at hand.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.transactions.producer_ids import ProducerIds
from ottla.types import ProducerId

ResponseT = TypeVar("ResponseT")


class NeedsProducerId(Enum):
    """In place of a response: nothing was decided."""

    NEEDS_PRODUCER_ID = "needs another producer id"


NEEDS_PRODUCER_ID: Final = NeedsProducerId.NEEDS_PRODUCER_ID


def run_with_producer_id(
    run: Callable[[ProducerId | None], Delayed[ResponseT | NeedsProducerId]],
    producer_ids: ProducerIds,
    on_error: Callable[[ErrorCode], ResponseT],
) -> Delayed[ResponseT]:
    """Return the response of ``run(None)``; if it needs one, that of ``run`` with another producer id."""
    outcome: Delayed[ResponseT] = Delayed()

    def on_first(response: ResponseT | NeedsProducerId) -> None:
        if isinstance(response, NeedsProducerId):
            producer_ids.generate().on_complete(on_generated)
        else:
            outcome.complete(response)

    def on_generated(generated: ProducerId | ErrorCode) -> None:
        if isinstance(generated, ErrorCode):
            outcome.complete(on_error(generated))
        else:
            run(generated).on_complete(on_second)

    def on_second(response: ResponseT | NeedsProducerId) -> None:
        assert not isinstance(response, NeedsProducerId), "it has one"
        outcome.complete(response)

    run(None).on_complete(on_first)
    return outcome

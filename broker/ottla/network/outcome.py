"""`Outcome`: the result of a request on its way to a response: a message, a `Delayed`, steps, or one of these."""

from typing import Any, NamedTuple, TypeAlias

from ottla.handlers.api import HandlerResult
from ottla.purgatory import Delayed
from ottla.wire.codec.message import Splice


class Running(NamedTuple):
    """Work that has not ended with its first slice; ``result`` delivers its outcome."""

    result: "Delayed[Any]"


class Encoded(NamedTuple):
    """A response that was encoded in slices."""

    out: bytearray
    splices: list[Splice]


Outcome: TypeAlias = "HandlerResult | Running | Encoded"


def result_of(outcome: Outcome) -> "Delayed[Any]":
    """Return what to wait for before ``outcome`` can be carried out."""
    return outcome.result if isinstance(outcome, Running) else Delayed.of(outcome)

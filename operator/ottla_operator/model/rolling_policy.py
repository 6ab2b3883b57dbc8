"""How nodes may be restarted (``spec.rolling``)."""

from dataclasses import dataclass
from typing import Self

from ottla_operator.model.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingPolicy:
    """See the module."""

    by_rack: bool = False
    """Whether brokers of one rack may be restarted together, where no partition misses them."""
    max_unavailable: int | None = None
    """How many of them at the most; None: as many as the rack has."""

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(by_rack=document.get("parallelism") == "Rack", max_unavailable=document.get("maxUnavailable"))

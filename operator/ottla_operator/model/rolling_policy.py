"""How nodes may be restarted (``spec.rolling``)."""

from dataclasses import dataclass
from typing import Self

from ottla_operator.model.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingPolicy:
    """Which nodes may be restarted together."""

    by_rack: bool = False
    """Whether brokers of one rack may be restarted together, if partitions keep enough replicas in sync."""
    max_unavailable: int | None = None
    """Upper limit of brokers that are restarted together; None: all of a rack."""

    @classmethod
    def parse(cls, document: Document) -> Self:
        return cls(by_rack=document.get("parallelism") == "Rack", max_unavailable=document.get("maxUnavailable"))

"""`Part`: interface of a node's parts, which the node ticks when they are due."""

from typing import Protocol


class Part(Protocol):
    """A part with work at certain times."""

    def tick(self, now_ms: int) -> int | None:
        """Do due work; return ``now_ms`` if there was any, else the value of `next_deadline_ms`."""

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called at the latest; None if nothing is planned."""

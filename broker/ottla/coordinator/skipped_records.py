"""`SkippedRecords`: the corrupt records and batches that a load has skipped, for one line of the log."""

from typing import Final

from ottla.quoting import one_line
from ottla.types import Offset

_NAMED_MAX: Final = 5
"""A partition may be corrupt from end to end; the offsets of the first ones are enough to find the cause."""


class SkippedRecords:
    """Counts corrupt records and batches, and remembers the first ones.

    Attributes:
        count: of corrupt records; a batch that cannot be read counts as one.
    """

    __slots__ = ("_named", "count")

    def __init__(self) -> None:
        self.count = 0
        self._named: list[str] = []

    def add(self, first_offset: Offset, last_offset: Offset, error: Exception) -> None:
        """Count the record, or the batch, at these offsets, which ``error`` describes."""
        self.count += 1
        if len(self._named) < _NAMED_MAX:
            offsets = (
                f"offset {first_offset}" if first_offset == last_offset else f"offsets {first_offset}-{last_offset}"
            )
            self._named.append(one_line(f"{offsets}: {error}"))

    def describe(self) -> str:
        """Return the offsets and errors of the first ones, and how many there are more."""
        others = self.count - len(self._named)
        return "; ".join([*self._named, *([f"and {others} more"] if others else [])])

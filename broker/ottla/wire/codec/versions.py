"""Ranges of message versions, written as Kafka writes them: ``"0+"``, ``"2-5"``, ``"3"``, ``"none"``."""

from functools import cache
from typing import NamedTuple

_OPEN_END = 32_767  # the wire carries versions as int16


class VersionRange(NamedTuple):
    """The versions ``first`` to ``last``, both included; empty when ``last`` < ``first``."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _OPEN_END:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS = VersionRange(0, -1)


@cache
def parse_versions(text: str) -> VersionRange:
    """Parse a range; the empty string and ``none`` are an empty range.

    Raises:
        ValueError: ``text`` is none of the four forms.
    """
    if text in ("", "none"):
        return NO_VERSIONS
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), _OPEN_END)
    first, dash, last = text.partition("-")
    return VersionRange(int(first), int(last) if dash else int(first))

"""Lines of the node's own log about what clients do: not more of them than somebody can read, and none forged."""

import traceback
from pathlib import PurePath
from typing import Final

from ottla.ports import Clock

_QUOTED_CHARACTERS_MAX: Final = 100
_ERROR_CHARACTERS_MAX: Final = 200


class LineLimit:
    """At most one line in each ``interval_ms``, so that a flood of events is not a flood of lines.

    Whoever writes the line counts the events, and says in it how many there were.
    """

    __slots__ = ("_clock", "_interval_ms", "_silent_until_ms")

    def __init__(self, clock: Clock, *, interval_ms: int = 1_000) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._silent_until_ms = 0

    def take(self) -> bool:
        """Return whether a line may be written now; if so, the next one only after the interval."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._silent_until_ms:
            return False
        self._silent_until_ms = now_ms + self._interval_ms
        return True


def quoted(text: str) -> str:
    """Return what a client sent as a line may show it: in quotes, in ASCII without line breaks, and cut short."""
    return ascii(text if len(text) <= _QUOTED_CHARACTERS_MAX else f"{text[:_QUOTED_CHARACTERS_MAX]}...")


def describe_error(error: BaseException) -> str:
    """Return an exception that no code expected, with the place that raised it, as one line of bounded length."""
    message = ascii(str(error)[:_ERROR_CHARACTERS_MAX])
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    place = f" at {PurePath(frames[0].filename).name}:{frames[0].lineno} in {frames[0].name}" if frames else ""
    return f"{type(error).__name__}: {message}{place}"

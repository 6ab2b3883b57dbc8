"""`LogFormatter`: one line per event, times in UTC, safe against forged log lines.

It is the second line of defence: the core quotes strings of clients (`ottla.quoting`). Messages of exceptions and of
libraries only pass here: unprintable characters are escaped, long messages are truncated, and lines of a traceback are
indented, so that every line that starts with a time is a genuine log line.
"""

import logging
import time
from typing import Final

from ottla.quoting import escape_unprintable

_MESSAGE_CHARACTERS_MAX: Final = 8_000
_TRACEBACK_CHARACTERS_MAX: Final = 16_000
_INDENT: Final = "    "
_CUT: Final = "[...]"


class LogFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO    ottla.node.node: message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, escaped and truncated."""
        line = super().formatMessage(record)
        if len(line) > _MESSAGE_CHARACTERS_MAX:
            line = f"{line[:_MESSAGE_CHARACTERS_MAX]}{_CUT}"
        return escape_unprintable(line)

    def formatException(self, ei: object) -> str:
        """Return the indented traceback; a long one keeps its start and its end, which names the exception."""
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _indented(stack_info)


def _indented(text: str) -> str:
    if len(text) > _TRACEBACK_CHARACTERS_MAX:
        half = _TRACEBACK_CHARACTERS_MAX // 2
        text = f"{text[:half]}\n{_CUT}\n{text[-half:]}"
    return "\n".join(f"{_INDENT}{escape_unprintable(line)}" for line in text.split("\n"))

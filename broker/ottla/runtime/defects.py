"""`Defects`: exceptions that no code expected, counted and told of in few lines, for a loop that survives them.

Which one it is decides what is given up: a connection, a listener for a moment, a part of the node until its next turn.
The node itself goes on: others are served by it, and what is wrong for one connection is mostly right for the next.
"""

import logging

from ottla.log_lines import LineLimit
from ottla.metrics.network import NetworkMetrics
from ottla.ports import Clock
from ottla.quoting import describe_error

logger = logging.getLogger(__name__)


class Defects:
    """See the module."""

    def __init__(self, clock: Clock, metrics: NetworkMetrics) -> None:
        self._metrics = metrics
        self._lines = LineLimit(clock)

    def note(self, what: str, error: Exception) -> None:
        """Count an exception, and log it with what comes of it: one line a second at most; its traceback at DEBUG."""
        self._metrics.unexpected_errors += 1
        if self._lines.take_permit():
            logger.error("%s: %s (%d such errors so far)", what, describe_error(error), self._metrics.unexpected_errors)
        logger.debug("traceback of an unexpected error", exc_info=error)

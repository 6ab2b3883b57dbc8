"""`Defects`: counter and rate-limited log of unexpected exceptions, which the loop survives.

The place where one is caught decides what is lost: a connection, a listener for a moment, one run of a part of the
node. The node itself continues: it serves other clients, and an error on one connection rarely concerns the next.
"""

import logging

from ottla.log_lines import LineLimit
from ottla.metrics.network import NetworkMetrics
from ottla.ports import Clock
from ottla.quoting import describe_error

logger = logging.getLogger(__name__)


class Defects:
    """Counter and log of unexpected exceptions."""

    def __init__(self, clock: Clock, metrics: NetworkMetrics) -> None:
        self._metrics = metrics
        self._lines = LineLimit(clock)

    def note(self, what: str, error: Exception) -> None:
        """Count an exception, and log it with its consequence: at most one line a second; its traceback at DEBUG."""
        self._metrics.unexpected_errors += 1
        if self._lines.take_permit():
            logger.error("%s: %s (%d such errors so far)", what, describe_error(error), self._metrics.unexpected_errors)
        logger.debug("traceback of an unexpected error", exc_info=error)

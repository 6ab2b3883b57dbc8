"""`Throttles`: how often, and for how long, quotas held clients back; logged at most once a second."""

import logging
from dataclasses import dataclass
from typing import Final

from ottla.log_lines import LineLimit
from ottla.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from ottla.ports import Clock

logger = logging.getLogger(__name__)

BROKER_CONNECTION_RATE: Final = "max.connection.creation.rate"
_KINDS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
    BROKER_CONNECTION_RATE,
)


@dataclass(slots=True)
class ThrottleCounters:
    """Of one kind; they only grow."""

    count: int = 0
    time_ms: int = 0


class Throttles:
    """``by_kind``: all kinds, by the key of the limit."""

    def __init__(self, clock: Clock) -> None:
        self.by_kind = {kind: ThrottleCounters() for kind in _KINDS}
        self._lines = LineLimit(clock)

    def note(self, kind: str, throttle_ms: int, whom: str) -> None:
        """Take note that ``whom`` is held back; names in it are to be `quoted`."""
        counters = self.by_kind[kind]
        counters.count += 1
        counters.time_ms += throttle_ms
        if self._lines.take():
            logger.info("%s is held back for %d ms by %s; %d times so far", whom, throttle_ms, kind, counters.count)

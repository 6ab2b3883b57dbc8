"""`Throttles`: how often, and for how long, quotas throttled clients; logged at most once a second."""

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
    """Counters of one kind of quota; they only grow."""

    count: int = 0
    time_ms: int = 0


class Throttles:
    """Counters of all kinds, ``by_kind`` of the limit's key."""

    def __init__(self, clock: Clock) -> None:
        self.by_kind = {kind: ThrottleCounters() for kind in _KINDS}
        self._lines = LineLimit(clock)

    def record(self, kind: str, throttle_ms: int, client: str) -> None:
        """Record that ``client`` is throttled; names in it have to be `quoted`."""
        counters = self.by_kind[kind]
        counters.count += 1
        counters.time_ms += throttle_ms
        if self._lines.take_permit():
            logger.info("%s is throttled for %d ms by %s; %d times so far", client, throttle_ms, kind, counters.count)

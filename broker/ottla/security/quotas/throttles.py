"""`Throttles`: how often, and for how long, quotas held clients back; logged at most once a second."""

import logging
from dataclasses import dataclass
from typing import Final

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
_LOG_INTERVAL_MS: Final = 1_000
_SHOWN_MAX: Final = 100


@dataclass(slots=True)
class ThrottleCounters:
    """Of one kind; they only grow."""

    count: int = 0
    time_ms: int = 0


class Throttles:
    """``by_kind``: all kinds, by the key of the limit."""

    def __init__(self, clock: Clock) -> None:
        self.by_kind = {kind: ThrottleCounters() for kind in _KINDS}
        self._clock = clock
        self._silent_until_ms = 0

    def note(self, kind: str, throttle_ms: int, whom: str) -> None:
        """Take note that ``whom`` is held back. Names in it are what clients send: they are shown quoted and cut."""
        counters = self.by_kind[kind]
        counters.count += 1
        counters.time_ms += throttle_ms
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._silent_until_ms:
            self._silent_until_ms = now_ms + _LOG_INTERVAL_MS
            logger.info("%s is held back for %d ms by %s; %d times so far", whom, throttle_ms, kind, counters.count)


def shown(name: str) -> str:
    """Return what a client sent as it may be logged."""
    return ascii(name if len(name) <= _SHOWN_MAX else f"{name[:_SHOWN_MAX]}...")

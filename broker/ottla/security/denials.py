"""`Denials`: who was refused what, counted, and logged at most once a second.

Source: the audit log of StandardAuthorizerData in Apache Kafka 4.3, which writes a line for every refusal.
"""

import logging
from collections import Counter

from ottla.ports import Clock
from ottla.wire.acl_codes import Operation, ResourceType

logger = logging.getLogger(__name__)

_LOG_INTERVAL_MS = 1_000
_NAME_SHOWN_MAX = 100


class Denials:
    """``counts`` by what was wanted; there are only so many operations and kinds of resources."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[tuple[Operation, ResourceType]] = Counter()
        self._clock = clock
        self._silent_until_ms = 0

    def note(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Take note of one refusal. Names are what clients send: they are shown quoted and cut short."""
        self.counts[operation, resource_type] += 1
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._silent_until_ms:
            return
        self._silent_until_ms = now_ms + _LOG_INTERVAL_MS
        logger.warning(
            "denied: %s from %s may not %s the %s %s; an access control entry would allow it (ottla acl add); "
            "%d refusals so far",
            _shown(principal),
            host,
            operation.name,
            resource_type.name.lower().replace("_", " "),
            _shown(name),
            self.counts.total(),
        )


def _shown(name: str) -> str:
    return ascii(name if len(name) <= _NAME_SHOWN_MAX else f"{name[:_NAME_SHOWN_MAX]}...")

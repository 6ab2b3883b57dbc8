"""`Denials`: counts of denied operations, logged at most once a second.

Source: the audit log of StandardAuthorizerData in Apache Kafka 4.3, which writes a line for every denial.
"""

import logging
from collections import Counter

from ottla.log_lines import LineLimit
from ottla.ports import Clock
from ottla.quoting import quoted
from ottla.wire.acl_codes import Operation, ResourceType

logger = logging.getLogger(__name__)


class Denials:
    """``counts`` by operation and resource type; both are enumerations, so it is bounded."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[tuple[Operation, ResourceType]] = Counter()
        self._lines = LineLimit(clock)

    def record_denial(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Count and log one denial."""
        self.counts[operation, resource_type] += 1
        if not self._lines.take_permit():
            return
        logger.warning(
            "denied: %s from %s may not %s the %s %s; an access control entry would allow it (ottla acl add); "
            "%d denials so far",
            quoted(principal),
            host,
            operation.name,
            resource_type.name.lower().replace("_", " "),
            quoted(name),
            self.counts.total(),
        )

"""`PeerDenials`: requests of this node that other nodes deny, because their authorizer does not permit them.

Nothing works then and nothing fails: the node asks again and again. So it says which principal lacks what, and what to
set, at the first denial and then every half minute. Kafka's brokers write a stack trace, or wait without a word.
"""

import logging
from typing import Final

from ottla.log_lines import LineLimit
from ottla.ports import Clock

logger = logging.getLogger(__name__)

_INTERVAL_MS: Final = 30_000


class PeerDenials:
    """``principal`` is what this node authenticates as, for people."""

    def __init__(self, clock: Clock, principal: str) -> None:
        self._principal = principal
        self._count = 0
        self._lines = LineLimit(clock, interval_ms=_INTERVAL_MS)

    def note(self, peer: object, what: str) -> None:
        """Take note that ``peer`` denied ``what``."""
        self._count += 1
        if self._lines.take():
            logger.error(
                "node %s denies %s to this node, which is %s there: the principal needs ClusterAction on the cluster. "
                "Add it to super.users on every node, as User:a;User:b (%d denials so far)",
                peer,
                what,
                self._principal,
                self._count,
            )

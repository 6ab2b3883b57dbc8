"""`PeerDenials`: reports requests of this node that other nodes' authorizers deny.

The node then retries for ever without an error. So it logs which principal lacks which permission, and what to
configure, at the first denial and then every half minute. Kafka's brokers write a stack trace, or wait silently.
"""

import logging
from typing import Final

from ottla.log_lines import LineLimit
from ottla.ports import Clock

logger = logging.getLogger(__name__)

_INTERVAL_MS: Final = 30_000
_START_MS: Final = 3_000
"""Time that a starting node may take until it has read the access control entries."""


class PeerDenials:
    """Rate-limited log of denials; ``principal`` describes the identity of this node."""

    def __init__(self, clock: Clock, principal: str) -> None:
        self._clock = clock
        self._principal = principal
        self._suspected_ms: int | None = None
        self._count = 0
        self._lines = LineLimit(clock, interval_ms=_INTERVAL_MS)

    def note(self, peer: object, what: str) -> None:
        """Count and report that ``peer`` denied ``what``."""
        self._count += 1
        if self._lines.take_permit():
            logger.error(
                "node %s denies %s to this node, which is %s there: the principal needs ClusterAction on the cluster. "
                "Add it to super.users on every node, as User:a;User:b (%d denials so far)",
                peer,
                what,
                self._principal,
                self._count,
            )

    def suspect(self, peer: object, what: str) -> None:
        """Count and report that ``peer`` rejected ``what`` with UNKNOWN_SERVER_ERROR while there is no quorum.

        An authorizer that has read no entries yet rejects every principal except super users with this error. If no
        voter is a super user, the quorum never elects a leader, and the entries are never read.
        """
        now_ms = self._clock.monotonic_ms()
        if self._suspected_ms is None:
            self._suspected_ms = now_ms
        self._count += 1
        if now_ms - self._suspected_ms >= _START_MS and self._lines.take_permit():
            logger.error(
                "node %s rejects %s with UNKNOWN_SERVER_ERROR, as an authorizer does before it has read any access "
                "control entries. This node is %s there: if that is not in super.users, no leader of the metadata "
                "quorum can be elected. Add it on every node, as User:a;User:b (%d rejected so far)",
                peer,
                what,
                self._principal,
                self._count,
            )

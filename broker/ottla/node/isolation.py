"""`Isolation`: a node without contact to the quorum or to any follower sends its clients elsewhere, once.

Others have taken over what it led; but it has not learned that, and records for its partitions wait for followers that
will never confirm them, until the client's own time-out. Ended connections make clients ask other brokers. Clients that
connect again are served, since this node may be the only one left to read from; but what all replicas in sync would
have to confirm is not appended.

Decision record: broker/decisions/0015-isolated-leaders.md.
"""

import logging
from collections.abc import Callable

from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.silent_followers import PAUSED_AFTER_MS
from ottla.types import NEVER_MS

logger = logging.getLogger(__name__)


class Isolation:
    """See the module.

    Args of the constructor:
        in_contact_until_ms: see `QuorumState`.
        disconnect_clients: ends the connections of clients, and returns how many.
    """

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        in_contact_until_ms: Callable[[], int],
        disconnect_clients: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._in_contact_until_ms = in_contact_until_ms
        self._disconnect_clients = disconnect_clients
        self._due_ms: int | None = None
        self._not_before_ms = 0

    def tick(self, now_ms: int) -> int | None:
        if self._due_ms is not None and now_ms > self._due_ms + PAUSED_AFTER_MS:
            # This process was paused: what its peers sent meanwhile has yet to be read.
            self._not_before_ms = now_ms + self._replicas.config.confirmation_age_max_ms
        self._due_ms = self._check(now_ms)
        return self._due_ms

    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def _check(self, now_ms: int) -> int | None:
        """Return when to check again at the latest."""
        replicas, in_contact_until_ms = self._replicas, self._in_contact_until_ms()
        silence_max_ms = replicas.config.confirmation_age_max_ms
        last_fetch_ms = replicas.isr_manager.followers.newest_fetch_ms
        isolated_at_ms = max(in_contact_until_ms, last_fetch_ms + silence_max_ms, self._not_before_ms)
        if now_ms < isolated_at_ms:
            replicas.is_isolated = False
            return None if in_contact_until_ms == NEVER_MS else isolated_at_ms
        if replicas.is_isolated:
            return None
        if not replicas.awaits_followers():
            return now_ms + silence_max_ms
        replicas.is_isolated = True
        logger.warning(
            "neither the quorum nor a follower responds to this node: disconnected %d clients, so that they ask other "
            "brokers who leads the partitions of this one",
            self._disconnect_clients(),
        )
        return None

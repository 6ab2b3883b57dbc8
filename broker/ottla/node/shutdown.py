"""`OrderlyShutdown`: a controlled shutdown with bounded steps: leaders move away, then this node leaves the quorum.

Source: BrokerServer.shutdown and KafkaRaftClient.shutdown of Apache Kafka 4.3, which wait for five minutes and more.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.ports import Clock
from ottla.purgatory import Delayed

TIME_MAX_MS: Final = 60_000
"""A supervisor kills a node that does not stop in time; it is better to end a step early and close the logs cleanly."""
WITHOUT_RESPONSE_MAX_MS: Final = 3_000
"""An election takes less; if all nodes are stopped at once, the last ones get no response any more."""
CHECK_INTERVAL_MS: Final = 100

logger = logging.getLogger(__name__)


class OrderlyShutdown:
    """Shutdown of one node.

    Args of the constructor:
        move_leaders: has the controller move leaders away from this node; completes when the node may stop.
        leave_quorum: resigns and notifies the other voters; completes when they have responded.
        responded_ms: when the controller last responded to this node, by the monotonic clock.
        on_done: called once, at the end.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        move_leaders: Callable[[], Delayed[None]],
        leave_quorum: Callable[[], Delayed[None]],
        responded_ms: Callable[[], int],
        on_done: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._leave_quorum = leave_quorum
        self._responded_ms = responded_ms
        self._on_done = on_done
        now_ms = clock.monotonic_ms()
        self._end_ms = now_ms + TIME_MAX_MS
        self._started_ms = now_ms
        self._is_leaving = False
        self._is_done = False
        move_leaders().on_complete(lambda _: self._leave())

    def tick(self, now_ms: int) -> None:
        """End a step that takes too long, or whose controller does not respond."""
        if self._is_done:
            return
        silent_ms = now_ms - max(self._started_ms, self._responded_ms())
        if silent_ms >= WITHOUT_RESPONSE_MAX_MS and not self._is_leaving:
            logger.warning("shutting down without handing leadership over: no controller responds")
            self._leave()
        if now_ms >= self._end_ms:
            logger.warning("shutting down now: handing leadership over took more than %d ms", TIME_MAX_MS)
            self._finish()

    def next_deadline_ms(self) -> int | None:
        return None if self._is_done else self._clock.monotonic_ms() + CHECK_INTERVAL_MS

    def _leave(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._leave_quorum().on_complete(lambda _: self._finish())

    def _finish(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._on_done()

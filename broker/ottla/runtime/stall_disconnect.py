"""`StallDisconnect`: while the event loop is stalled, clients and other nodes find the node as if it had been killed.

Open connections of a node that does not respond are worse than none: clients wait for their responses until a time-out
of their own, half a minute, though another broker has long been leading; the controller waits for the end of the
session. So listeners and connections are shut down from the thread of the watch. Peers then find the connection
refused, which makes the controller fence the broker, and the voters of the quorum elect another leader, at once. Epochs
guard all that the loop still does when it runs again, as after a pause. It then listens again, and the broker returns
with its next heartbeat.

A node without others in its cluster keeps its connections: no other could take over.

Decision record: broker/decisions/0013-nodes-that-are-stalled.md.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.metrics.loop import LoopMetrics

logger = logging.getLogger(__name__)

KEY: Final = "ottla.loop.stall.disconnect.ms"


class StallDisconnect:
    """Implements `StallResponse`.

    Args of the constructor:
        disconnect: shuts down listeners and connections, returns how many connections; called on the watch's thread.
        has_others: returns whether the cluster has other nodes; called on that thread, too.
    """

    def __init__(self, disconnect: Callable[[], int], has_others: Callable[[], bool], metrics: LoopMetrics) -> None:
        self._disconnect = disconnect
        self._has_others = has_others
        self._metrics = metrics
        self._has_disconnected = False

    def on_stalled(self, stalled_ms: int) -> None:
        if not self._has_others():
            return
        count = self._disconnect()
        self._has_disconnected = True
        self._metrics.disconnects += 1
        # Last: the log may be on the disk that the loop waits for.
        logger.warning(
            "the event loop has been busy for %d ms (%s): shut down the listeners and %d connections, so that clients "
            "and other nodes do without this node until it responds again",
            stalled_ms,
            KEY,
            count,
        )

    def on_recovered(self, stalled_ms: int) -> None:
        if self._has_disconnected:
            self._has_disconnected = False
            logger.warning("listening again after a stall of up to %d ms", stalled_ms)

"""`FlowControl`: pauses and resumes the reading of connections, and keeps their responses in order.

A connection is blocked while a response must leave before its next request is handled, while its peer does not read its
responses, while its client is throttled, and while other connections are served first. It is not read meanwhile, so
that TCP slows the peer down.
"""

from collections.abc import Callable
from typing import Any

from ottla.errors import ProtocolError
from ottla.network.connection import Connection
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.response_queue import Finish, ResponseQueue
from ottla.network.throttling import ThrottledConnections
from ottla.ports import Clock, Network
from ottla.purgatory import Delayed


class FlowControl:
    """Flow control of all connections.

    Args of the constructor:
        announce_appends: wakes fetches that wait for records which a resumed connection has appended.
        on_close: closes a connection that violated the protocol, and logs the reason.

    Attributes:
        throttled: connections whose clients are above a quota.
        scheduler: connections with pipelined requests.
    """

    def __init__(
        self,
        clock: Clock,
        network: Network,
        *,
        announce_appends: Callable[[], None],
        on_close: Callable[[Connection, str], None],
    ) -> None:
        self._clock = clock
        self._network = network
        self._announce_appends = announce_appends
        self._on_close = on_close
        self.throttled = ThrottledConnections(on_over=self._on_throttle_over)
        self.scheduler = FairScheduler(clock, on_slice=self.resume_unless_blocked)

    def await_response(
        self,
        connection: Connection,
        result: "Delayed[Any]",
        finish: Finish,
        *,
        blocks_requests: bool,
        is_running: bool = False,
    ) -> None:
        """Send the response when ``result`` is complete and the responses before it have left."""
        responses = connection.responses
        if responses is None:
            responses = connection.responses = ResponseQueue()
        responses.add(result, finish, blocks_requests=blocks_requests, is_running=is_running)
        if responses.blocks_further_requests:
            connection.is_blocked = True
            self._network.pause_reading(connection.info.connection)
        result.on_complete(lambda _: self._send_ready_responses(connection, responses))

    def _send_ready_responses(self, connection: Connection, responses: ResponseQueue) -> None:
        while not connection.is_closed and responses.is_next_complete:
            rest = responses.finish_next()
            if rest is not None and not rest.is_complete:
                connection.is_blocked = True
                self._network.pause_reading(connection.info.connection)
                rest.on_complete(lambda _: self._send_ready_responses(connection, responses))
                return
        if connection.is_blocked:
            self.resume_unless_blocked(connection)

    def drained(self, connection: Connection) -> None:
        """Serve a connection again whose peer has read its queued responses."""
        connection.is_full = False
        if self.scheduler and not connection.awaits_slice:
            # A slow reader must not gain extra slices.
            self.scheduler.enqueue(connection)
        else:
            self.resume_unless_blocked(connection)

    def await_slice(self, connection: Connection) -> None:
        """Serve the next frames of ``connection`` after other connections; it is not read meanwhile."""
        self.scheduler.enqueue(connection)
        self._network.pause_reading(connection.info.connection)

    def resume_unless_blocked(self, connection: Connection) -> None:
        if connection.is_full or connection.is_throttled or connection.awaits_slice or connection.is_closed:
            return
        if connection.responses is None or not connection.responses.blocks_further_requests:
            connection.is_blocked = False
            self._resume(connection)

    def _resume(self, connection: Connection) -> None:
        """Serve the frames received meanwhile, then resume reading unless they blocked the connection again."""
        try:
            connection.resume()
        except ProtocolError as error:
            self._on_close(connection, str(error))
        self._announce_appends()
        if connection.awaits_slice and not connection.is_closed:
            self.await_slice(connection)
        if not connection.is_blocked and not connection.is_waiting and not connection.is_closed:
            self._network.resume_reading(connection.info.connection)

    def throttle(self, connection: Connection, throttle_ms: int) -> None:
        if throttle_ms > 0 and not connection.is_closed:
            self.throttled.throttle(connection, self._clock.monotonic_ms() + throttle_ms)
            self._network.pause_reading(connection.info.connection)

    def _on_throttle_over(self, connection: Connection) -> None:
        # A connection that was throttled for a long time has not been idle.
        connection.last_active_ms = self._clock.monotonic_ms()
        self.resume_unless_blocked(connection)

    def send(self, connection: Connection, chunks: list) -> None:  # type: ignore[type-arg]
        if not self._network.send(connection.info.connection, chunks):
            connection.is_blocked = connection.is_full = True
            self._network.pause_reading(connection.info.connection)

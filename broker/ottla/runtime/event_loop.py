"""`EventLoop`: the selector, actions posted by other threads, idle work, and the loop over them.

One iteration: events of the selector (`ReadyConnections`), then posted actions, then connections that no event reports,
then timers. An unexpected exception costs its event or action, never the loop (`Defects`).
"""

import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ottla.metrics.loop import LoopMetrics
from ottla.ports import Clock
from ottla.runtime.core import Core
from ottla.runtime.defects import Defects
from ottla.runtime.epoll_selector import new_selector
from ottla.runtime.idle_work import IdleWork
from ottla.runtime.ready_connections import ReadyConnections
from ottla.runtime.response_group import ResponseGroup

logger = logging.getLogger(__name__)


class LoopHandler(Protocol):
    """Work of an iteration besides events and posted actions: `runtime.reactor.Reactor`."""

    responses: ResponseGroup

    def serve_waiting(self) -> None:
        """Continue with connections that no event of the selector reports."""

    def timeout_s(self) -> float | None:
        """Return how long the selector may wait for an event; None for ever."""

    def on_failed_event(self, callback: object, error: Exception) -> None:
        """Handle an unexpected exception of a selector's callback."""


class EventLoop:
    """Loop of a reactor. Callbacks are registered as ``data`` with `selector`, and receive the events.

    ``ready_count`` is the number of sockets with events in this iteration; ``busy_since_ns`` is its monotonic start, 0
    while the loop waits for events.
    """

    def __init__(self, clock: Clock, defects: Defects, metrics: LoopMetrics) -> None:
        self.selector = new_selector()
        self.idle = IdleWork(defects)
        self.ready_count = 1
        self.busy_since_ns = 0
        self._metrics = metrics
        self._clock = clock
        self._defects = defects
        self._stopping = False
        self.posted: deque[Callable[[], None]] = deque()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self.selector.register(self._wake_reader, selectors.EVENT_READ, self._on_wake)

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the loop soon; may be called from any thread."""
        self.posted.append(action)
        try:
            self._wake_writer.send(b"\0")
        except BlockingIOError:
            pass  # a wake-up is already pending
        except OSError:
            logger.debug("the loop has ended; an action posted to it is dropped")

    def stop(self) -> None:
        """Leave `run` after the current iteration; may be called from any thread or signal handler."""
        self._stopping = True
        self.post(lambda: None)

    def run(self, handler: LoopHandler, core: Core) -> None:
        """Run iterations until `stop`; each ends with ``core.tick``."""
        select, posted, responses = self.selector.select, self.posted, handler.responses
        serve = ReadyConnections(self._clock, handler.on_failed_event, responses).serve
        serve_waiting = handler.serve_waiting
        monotonic_ns, count = self._clock.monotonic_ns, self._metrics.add
        while not self._stopping:
            # Under load sockets are ready already, and the time-out need not be computed.
            ready = select(0) or self._wait(handler)
            self.busy_since_ns = started_ns = monotonic_ns()
            self.ready_count = len(ready)
            serve(ready)
            while posted:
                action = posted.popleft()
                try:
                    action()
                except Exception as error:
                    self._defects.note("a completion was dropped", error)
                if responses.links:
                    responses.send()
            try:
                serve_waiting()
            except Exception as error:
                self._defects.note("connections wait for the next iteration of the loop", error)
            core.tick()
            if responses.links:
                responses.send()
            self.busy_since_ns = 0
            count(monotonic_ns() - started_ns)

    def _wait(self, handler: LoopHandler) -> list[tuple[selectors.SelectorKey, int]]:
        if self.idle.has_work:
            self.idle.take_step()
        return self.selector.select(handler.timeout_s())

    def _on_wake(self, _: int) -> None:
        try:
            while self._wake_reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        self.selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

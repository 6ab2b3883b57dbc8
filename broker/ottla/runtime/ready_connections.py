"""`ReadyConnections`: which ready connections a loop iteration serves, and in which order.

epoll reports connections in the order in which they became ready. A client that sends a request whenever it has a
response is ready in each iteration, and ten such clients fill the loop with their requests. A client with one request
now and then would wait for all ten with each of its requests. So the connection that was served longest ago comes
first, and an iteration ends when its time is used up: what became ready meanwhile is compared with what is left.

A few ready connections wait for a few requests in any order: they are not sorted.
"""

import selectors
from collections.abc import Callable, Sequence
from typing import Final

from ottla.ports import Clock
from ottla.runtime.response_group import ResponseGroup

FEW: Final = 4
"""Up to so many ready connections are served as they come."""
ITERATION_NS: Final = 250_000
"""Time of an iteration: a client with one request should not wait longer while others are served. With twice as much,
its p99 beside ten busy clients was 2.5 to 2.7 times the quiet one, and 1.1 to 1.8 times with this.
"""
EACH_NS: Final = 12_500
"""Added for each ready connection: reporting and sorting a thousand of them again must stay a small part."""
GROUP_NS: Final = 200_000
"""Responses are kept this long to leave with those to the next requests: about five of the quickest requests."""

Ready = tuple[selectors.SelectorKey, int]


class ReadyConnections:
    """Order of service of one loop; ``data`` of each key is called with its events.

    Args of the constructor:
        on_defect: receives the callback, and the exception that it raised.
        responses: the responses of one iteration, in groups where more than a few connections are ready.
    """

    def __init__(self, clock: Clock, on_defect: Callable[[object, Exception], None], responses: ResponseGroup) -> None:
        self._monotonic_ns = clock.monotonic_ns
        self._on_defect = on_defect
        self._responses = responses
        self._number = 0
        self._served_as: dict[int, int] = {}
        """By descriptor: the number of its last event."""

    def serve(self, ready: Sequence[Ready]) -> None:
        """Serve one iteration. The selector reports again what is left."""
        if len(ready) > FEW:
            self._serve_longest_waiting(ready)
            return
        responses = self._responses
        for key, events in ready:
            try:
                key.data(events)
            except Exception as error:
                self._on_defect(key.data, error)
            if responses.links:
                responses.send()

    def _serve_longest_waiting(self, ready: Sequence[Ready]) -> None:
        served_as, monotonic_ns, responses = self._served_as, self._monotonic_ns, self._responses
        number = self._number
        now_ns = monotonic_ns()
        until_ns, group_until_ns = now_ns + ITERATION_NS + EACH_NS * len(ready), now_ns + GROUP_NS
        responses.is_open = True
        # A new descriptor counts as served just before: it does not overtake those that wait since earlier iterations,
        # and is not overtaken by those that are served in this one.
        for key, events in sorted(ready, key=lambda item: served_as.setdefault(item[0].fd, number)):
            try:
                key.data(events)
            except Exception as error:
                self._on_defect(key.data, error)
            self._number = served_as[key.fd] = self._number + 1
            now_ns = monotonic_ns()
            if now_ns >= until_ns:
                break
            if now_ns >= group_until_ns:
                responses.send()
                group_until_ns = now_ns + GROUP_NS
        responses.is_open = False
        responses.send()

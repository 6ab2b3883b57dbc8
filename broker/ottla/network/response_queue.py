"""`ResponseQueue`: the responses that one connection is still to be sent, in the order of its requests.

Kafka reads a connection's next request after it has responded to the last one. Here a Produce that waits for its
followers does not block the requests behind it: what a client has sent ahead is appended as it comes, and goes to the
followers together instead of one round trip after the other. Responses leave in the order of the requests all the same.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.purgatory import Delayed

IN_HAND_MAX: Final = 16
"""Requests of one connection that are in hand at once; librdkafka and Java send five ahead."""

Finish: TypeAlias = "Callable[[Any], Delayed[Any] | None]"
"""Takes a result; returns None when its response has left, or what has to complete before it can."""

_Entry: TypeAlias = "tuple[Delayed[Any], Finish, bool, bool]"


def _blocks(entry: _Entry) -> bool:
    result, _, blocks_requests, is_running = entry
    return (blocks_requests or is_running) and not result.is_complete


class ResponseQueue:
    """See the module."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[_Entry] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, result: "Delayed[Any]", finish: Finish, *, blocks_requests: bool, is_running: bool = False) -> None:
        """Append the request that came last.

        Args:
            result: delivers what ``finish`` takes.
            finish: called when the responses before it have left.
            blocks_requests: no request behind it is handled before it is responded to.
            is_running: likewise until ``result`` is complete: its handler runs in slices.
        """
        self._queue.append((result, finish, blocks_requests, is_running))

    @property
    def blocks_further_requests(self) -> bool:
        """Whether no further request is to be handled now."""
        queue = self._queue
        if not queue:
            return False
        # Of those in between none blocks: behind one that does no request is handled.
        return len(queue) >= IN_HAND_MAX or _blocks(queue[-1]) or _blocks(queue[0])

    @property
    def is_next_complete(self) -> bool:
        """Whether the response that may leave next is ready."""
        return bool(self._queue) and self._queue[0][0].is_complete

    def finish_next(self) -> "Delayed[Any] | None":
        """Finish with the response that may leave next; return what it waits for now, None when it has left."""
        result, finish, blocks_requests, _ = self._queue.popleft()
        rest = finish(result.value)
        if rest is not None:
            # It is what a handler waits for, or else more slices, of a response that is encoded in them for example.
            self._queue.appendleft((rest, finish, blocks_requests, rest is not result.value))
        return rest

    def abandon(self) -> None:
        """Give up all of them: the connection has ended."""
        while self._queue:
            self._queue.popleft()[0].abandon()

"""`ResponseQueue`: pending responses of one connection, in the order of its requests.

Kafka reads a connection's next request after it has responded to the last one. Here a Produce that waits for its
followers does not block the requests behind it: pipelined produces are appended as they arrive, and fetched by the
followers together instead of one per round trip. Responses still leave in the order of the requests.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.purgatory import Delayed

IN_PROGRESS_MAX: Final = 16
"""Requests of one connection that are in progress at once; librdkafka and Java pipeline five."""

Finish: TypeAlias = "Callable[[Any], Delayed[Any] | None]"
"""Finishes a request with its result; returns None when its response has left, or a result to wait for before that."""

_Entry: TypeAlias = "tuple[Delayed[Any], Finish, bool, bool]"


def _blocks(entry: _Entry) -> bool:
    result, _, blocks_requests, is_running = entry
    return (blocks_requests or is_running) and not result.is_complete


class ResponseQueue:
    """Queue of pending responses."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[_Entry] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, result: "Delayed[Any]", finish: Finish, *, blocks_requests: bool, is_running: bool = False) -> None:
        """Append the newest request.

        Args:
            result: delivers the argument of ``finish``.
            finish: called when the responses before it have left.
            blocks_requests: no later request is handled before this one is responded to.
            is_running: no later request is handled before ``result`` is complete: the handler runs in slices.
        """
        self._queue.append((result, finish, blocks_requests, is_running))

    @property
    def blocks_further_requests(self) -> bool:
        """Whether no further request may be handled now."""
        queue = self._queue
        if not queue:
            return False
        # Entries in between never block: no request is handled behind one that does.
        return len(queue) >= IN_PROGRESS_MAX or _blocks(queue[-1]) or _blocks(queue[0])

    @property
    def is_next_complete(self) -> bool:
        """Whether the first response is ready."""
        return bool(self._queue) and self._queue[0][0].is_complete

    def finish_next(self) -> "Delayed[Any] | None":
        """Finish the first response; return the result that it waits for now, None when it has left."""
        result, finish, blocks_requests, _ = self._queue.popleft()
        rest = finish(result.value)
        if rest is not None:
            # The result of a handler, or of more slices, such as those of a response that is encoded in slices.
            self._queue.appendleft((rest, finish, blocks_requests, rest is not result.value))
        return rest

    def abandon(self) -> None:
        """Abandon all pending results: the connection has ended."""
        while self._queue:
            self._queue.popleft()[0].abandon()

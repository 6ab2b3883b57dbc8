"""`ResponseQueue`: what a connection's peer has yet to be answered, in the order of its requests.

Kafka reads a connection's next request when the last one is answered. Here a produce that waits for its followers does
not hold up the produces behind it: what a client has sent ahead is appended as it comes, and goes to the followers
together instead of one round trip after the other. Answers leave in the order of the requests all the same.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.purgatory import Delayed

IN_HAND_MAX: Final = 16
"""Requests of one connection that are in hand at once; librdkafka and Java send five ahead."""

Finish: TypeAlias = "Callable[[Any], Delayed[Any] | None]"
"""Does what is to be done with an answer; returns None, or what has to complete before it can be finished with that."""

_Due: TypeAlias = "tuple[Delayed[Any], Finish, bool, bool]"


def _holds_up(due: _Due) -> bool:
    answer, _, holds_up, is_running = due
    return (holds_up or is_running) and not answer.is_complete


class ResponseQueue:
    """See the module."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[_Due] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, answer: "Delayed[Any]", finish: Finish, *, holds_up: bool, is_running: bool = False) -> None:
        """Append the request that came last.

        Args:
            answer: delivers what ``finish`` takes.
            finish: called when the answers before it have left.
            holds_up: no request behind it is handled before it is answered.
            is_running: likewise until ``answer`` is complete: its handler runs in slices.
        """
        self._queue.append((answer, finish, holds_up, is_running))

    @property
    def hold_up(self) -> bool:
        """Whether no further request is to be handled now."""
        queue = self._queue
        if not queue:
            return False
        # Of those in between none holds up: behind one that does no request is handled.
        return len(queue) >= IN_HAND_MAX or _holds_up(queue[-1]) or _holds_up(queue[0])

    @property
    def is_next_complete(self) -> bool:
        """Whether the answer that may leave next is there."""
        return bool(self._queue) and self._queue[0][0].is_complete

    def finish_next(self) -> "Delayed[Any] | None":
        """Finish with the answer that may leave next; return what it waits for now, None when it has left."""
        answer, finish, holds_up, _ = self._queue.popleft()
        rest = finish(answer.value)
        if rest is not None:
            # It is what a handler waits for, or else more slices, of a response that is encoded in them for example.
            self._queue.appendleft((rest, finish, holds_up, rest is not answer.value))
        return rest

    def abandon(self) -> None:
        """Nobody waits for them any more."""
        while self._queue:
            self._queue.popleft()[0].abandon()

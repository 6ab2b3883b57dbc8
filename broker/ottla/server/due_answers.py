"""`DueAnswers`: what a connection's peer has yet to be answered, in the order of its requests.

Kafka reads a connection's next request when the last one is answered. Here a produce that waits for its followers does
not hold up the produces behind it: what a client has sent ahead is appended as it comes, and goes to the followers
together instead of one round trip after the other. Answers leave in the order of the requests all the same.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.purgatory import Delayed
from ottla.wire.codec import Message

IN_HAND_MAX: Final = 16
"""Requests of one connection that are in hand at once; librdkafka and Java send five ahead."""


_Due = tuple["Delayed[Message]", Callable[[Message], object], bool]


class DueAnswers:
    """See the module."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[_Due] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, answer: "Delayed[Message]", send: Callable[[Message], object], *, holds_up: bool) -> None:
        """Append the request that came last; ``holds_up``: none behind it is handled before it is answered."""
        self._queue.append((answer, send, holds_up))

    @property
    def hold_up(self) -> bool:
        """Whether no further request is to be handled now."""
        queue = self._queue
        if not queue:
            return False
        answer, _, holds_up = queue[-1]
        return len(queue) >= IN_HAND_MAX or (holds_up and not answer.is_complete)

    def send_next(self) -> bool:
        """Send the answer that may leave next; False when it is not there yet."""
        if not self._queue or not self._queue[0][0].is_complete:
            return False
        answer, send, _ = self._queue.popleft()
        send(answer.value)
        return True

    def abandon(self) -> None:
        """Nobody waits for them any more."""
        while self._queue:
            self._queue.popleft()[0].abandon()

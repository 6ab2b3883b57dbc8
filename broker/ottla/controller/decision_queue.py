"""`DecisionQueue`: carries out one decision after the other, long ones in slices, and completes their responses.

An event such as the end of a broker changes thousands of partitions. Its records are decided, replayed and appended a
slice at a time, so that it does not hold the event loop; the other decisions wait meanwhile, because each is based on
the outcome of all those before it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.controller.result import ControllerResult
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.records import MetadataRecord
from ottla.purgatory import Delayed
from ottla.types import Offset

DECIDED_PER_SLICE: Final = 100
"""Partitions; deciding, replaying and appending their records takes 2 to 4 ms."""

Decide = Callable[[], ControllerResult[Any] | None]


class _Waiting(NamedTuple):
    """A response that waits until everything up to ``offset`` is committed."""

    offset: Offset
    response: Any
    delayed: Delayed[Any]


class _Running(NamedTuple):
    """A decision of which some records are yet to be decided; ``slice_size`` is None for all of them at once."""

    records: Iterator[MetadataRecord | None]
    slice_size: int | None
    result: ControllerResult[Any]
    delayed: Delayed[Any]


class DecisionQueue:
    """See the module.

    Args of the constructor:
        append: replays and appends one batch; returns its last offset, or the error that prevented it.
        last_offset: returns the offset of the last appended record.

    Attributes:
        committed_offset: the offset of the last committed record.
    """

    def __init__(
        self, *, append: Callable[[list[MetadataRecord]], Offset | KafkaError], last_offset: Callable[[], Offset]
    ) -> None:
        self.committed_offset: Offset = -1
        self._append = append
        self._last_offset = last_offset
        self._running: _Running | None = None
        self._next: deque[tuple[Decide, Delayed[Any]]] = deque()
        self._waiting: deque[_Waiting] = deque()

    @property
    def is_running(self) -> bool:
        """Whether a decision has more slices, or others wait: `run_slice` is due."""
        return self._running is not None or bool(self._next)

    def decide(self, decide: Decide) -> Delayed[Any]:
        """Carry out a decision, after those that were requested before it.

        ``decide`` returns None when nothing is to be decided, and that completes the result. Else it completes with the
        decision's response once its records are committed, or with the KafkaError that prevented it. Without records
        the response waits for earlier appends: the decision was based on them.
        """
        delayed: Delayed[Any] = Delayed()
        self._next.append((decide, delayed))
        self._start_next()
        return delayed

    def run_slice(self) -> None:
        """Continue the running decision; start the next ones if it ends."""
        if self._running is not None:
            self._continue(self._running)
        self._start_next()

    def on_committed(self, offset: Offset) -> None:
        """Complete the responses that waited for the records up to ``offset``."""
        self.committed_offset = offset
        while self._waiting and self._waiting[0].offset <= offset:
            waiting = self._waiting.popleft()
            waiting.delayed.complete(waiting.response)

    def fail_all(self, error: KafkaError) -> None:
        """End every decision that is not committed: another controller may decide otherwise."""
        unfinished = [each.delayed for each in self._waiting]
        if self._running is not None:
            unfinished.append(self._running.delayed)
        unfinished += [delayed for _, delayed in self._next]
        self._running = None
        self._waiting.clear()
        self._next.clear()
        for delayed in unfinished:
            delayed.complete(error)

    def _start_next(self) -> None:
        while self._running is None and self._next:
            self._start(*self._next.popleft())

    def _start(self, decide: Decide, delayed: Delayed[Any]) -> None:
        try:
            result = decide()
        except KafkaError as error:
            delayed.complete(error)
            return
        except BaseException:
            delayed.complete(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            raise
        if result is None:
            delayed.complete(None)
            return
        size = None if result.is_atomic else DECIDED_PER_SLICE
        self._running = _Running(iter(result.records), size, result, delayed)
        self._continue(self._running)

    def _continue(self, running: _Running) -> None:
        """Decide and append one slice; the decision has ended if there is less than one."""
        try:
            decided = list(islice(running.records, running.slice_size))
            records = [record for record in decided if record is not None]
            appended = self._append(records) if records else self._last_offset()
        except BaseException:
            # The event loop reports an error of the code. It must not block all other decisions, nor this one's client.
            self._running = None
            running.delayed.complete(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            raise
        if self._running is not running:
            return  # the leadership was lost in the append, and every decision ended with it
        if isinstance(appended, KafkaError) or running.slice_size is None or len(decided) < running.slice_size:
            self._running = None
            self._await_commit(appended, running.result, running.delayed)

    def _await_commit(
        self, appended: Offset | KafkaError, result: ControllerResult[Any], delayed: Delayed[Any]
    ) -> None:
        if isinstance(appended, KafkaError):
            delayed.complete(appended)
            return
        if result.on_appended is not None:
            result.on_appended(appended)
        if appended <= self.committed_offset:
            delayed.complete(result.response)
        else:
            self._waiting.append(_Waiting(appended, result.response, delayed))

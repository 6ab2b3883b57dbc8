"""`CommitWaits`: the responses of one partition that wait until records are committed.

A response waits for the records of its own operation; without any, for the last append before it, because the
operation may have seen what that append stores.

Source: DeferredEventQueue, CoordinatorRuntime's write time-outs of Apache Kafka's coordinator-common.
"""

from collections.abc import Callable

from ottla.coordinator.append_errors import append_error_to_response_error
from ottla.coordinator.timers import Timers
from ottla.errors import ErrorCode
from ottla.ports import Clock
from ottla.purgatory import Delayed


class CommitWaits:
    """Waits end with the commit, with the error of the append, after ``timeout_ms``, or by `fail_all`."""

    def __init__(self, *, partition: int, timeout_ms: int, clock: Clock, timers: Timers) -> None:
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._timers = timers
        self._waiting: dict[int, Delayed[ErrorCode]] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def wait_for(
        self,
        appended: Delayed[ErrorCode],
        outcome: Delayed[ErrorCode],
        convert: Callable[[ErrorCode], ErrorCode] = append_error_to_response_error,
    ) -> Delayed[ErrorCode]:
        """Complete ``outcome`` with NONE or what ``convert`` returns for the error of the append; return it."""
        self._sequence += 1
        sequence = self._sequence
        self._waiting[sequence] = outcome
        key = (self._partition, "commit", sequence)
        timed_out = convert(ErrorCode.REQUEST_TIMED_OUT)
        self._timers.schedule(key, self._clock.monotonic_ms() + self._timeout_ms, lambda: outcome.complete(timed_out))

        def on_appended(error: ErrorCode) -> None:
            self._timers.cancel(key)
            self._waiting.pop(sequence, None)
            outcome.complete(convert(error))

        appended.on_complete(on_appended)
        return outcome

    def fail_all(self, error: ErrorCode) -> None:
        """Complete everything that waits with ``error``."""
        waiting, self._waiting = self._waiting, {}
        for outcome in waiting.values():
            outcome.complete(error)

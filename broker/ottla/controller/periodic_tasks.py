"""`PeriodicTasks`: what the active controller decides by time, one decision after the other.

Source: PeriodicTaskControlManager of Apache Kafka 4.3.
"""

from typing import Protocol

from ottla.controller.result import ControllerResult


class PeriodicTask(Protocol):
    """Soft state of the active controller: when its next round is due. Times are monotonic."""

    def start(self, now_ms: int) -> None:
        """Set the deadlines: this controller has just become active."""

    def run_round(self, now_ms: int) -> ControllerResult[None] | None:
        """Return the decision that is due, and set the next deadline; None when none is."""

    def next_deadline_ms(self) -> int | None: ...


class PeriodicTasks:
    """A `PeriodicTask` of several: a round is that of the first one that is due; the next follows at once."""

    def __init__(self, *tasks: PeriodicTask) -> None:
        self._tasks = tasks

    def start(self, now_ms: int) -> None:
        for task in self._tasks:
            task.start(now_ms)

    def run_round(self, now_ms: int) -> ControllerResult[None] | None:
        for task in self._tasks:
            decided = task.run_round(now_ms)
            if decided is not None:
                return decided
        return None

    def next_deadline_ms(self) -> int | None:
        deadlines = (task.next_deadline_ms() for task in self._tasks)
        return min((each for each in deadlines if each is not None), default=None)

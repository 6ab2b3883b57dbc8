"""Periodic tasks of the controller: each due one gets its round, one at a time."""

from ottla.controller.periodic_tasks import PeriodicTasks
from ottla.controller.result import ControllerResult


class EveryTen:
    """A task that is due each 10 ms."""

    def __init__(self) -> None:
        self.due_ms: int | None = None
        self.rounds = 0

    def start(self, now_ms: int) -> None:
        self.due_ms = now_ms + 10

    def run_round(self, now_ms: int) -> ControllerResult[None] | None:
        if self.due_ms is None or now_ms < self.due_ms:
            return None
        self.rounds += 1
        self.due_ms = now_ms + 10
        return ControllerResult(None)

    def next_deadline_ms(self) -> int | None:
        return self.due_ms


def test_every_due_task_gets_its_round() -> None:
    one, other = EveryTen(), EveryTen()
    tasks = PeriodicTasks(one, other)
    assert tasks.next_deadline_ms() is None
    tasks.start(100)
    assert tasks.run_round(109) is None

    results = [tasks.run_round(110) is not None for _ in range(3)]

    assert results == [True, True, False]
    assert (one.rounds, other.rounds, tasks.next_deadline_ms()) == (1, 1, 120)

"""An event loop whose time jumps to the next timer instead of passing."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Clock(asyncio.SelectorEventLoop):
    """The loop; its time starts at 1,000 s."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1_000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(scenario: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a scenario to its end and return its result."""
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(scenario())

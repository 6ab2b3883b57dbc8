"""`StallWatch`: a thread that notices when the event loop serves no connection for too long.

One Python thread serves all connections of a node. A disk that does not respond, a defect or a very busy host can stop
it, and then nothing that runs on it can respond to that: `StallReport` and `StallDisconnect` do, each on a watch of its
own, because a report may wait for the same disk.

A process that was paused as a whole is not a stall: then this thread did not run either.
"""

import threading
from typing import Final, Protocol

from ottla.ports import Clock

_CHECKS_PER_BOUND: Final = 4


class WatchedLoop(Protocol):
    """`runtime.event_loop.EventLoop`."""

    busy_since_ns: int
    """Monotonic start of the iteration that is under way; 0 while the loop waits for events."""


class StallResponse(Protocol):
    """Called on the thread of the watch."""

    def on_stalled(self, stalled_ms: int) -> None:
        """Respond to an iteration that has taken longer than the bound; called once for each."""

    def on_recovered(self, stalled_ms: int) -> None:
        """Note that the iteration has ended; ``stalled_ms`` is at most a quarter of the bound too long."""


class StallWatch:
    """See the module.

    Args of the constructor:
        bound_ms: an iteration that takes longer is a stall.
        name: of the thread.
    """

    def __init__(self, loop: WatchedLoop, clock: Clock, bound_ms: int, response: StallResponse, name: str) -> None:
        self._loop = loop
        self._clock = clock
        self._bound_ns = bound_ms * 1_000_000
        self._period_s = bound_ms / 1000 / _CHECKS_PER_BOUND
        self._response = response
        self._closing = threading.Event()
        self._stalled_since_ns = 0
        """Start of the iteration that was responded to, until the loop has ended it."""
        self._checked_ns = clock.monotonic_ns()
        # A daemon thread: if it waits for a disk, the process must still be able to exit.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to watch.

        Raises:
            RuntimeError: the system does not start a thread.
        """
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(self._period_s)

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            self.check()

    def check(self) -> None:
        """Respond to the iteration that is under way if it has taken too long."""
        now_ns = self._clock.monotonic_ns()
        # What this thread overslept, the loop's thread may have waited for a core, too.
        late_ns = max(0, now_ns - self._checked_ns - round(self._period_s * 1e9))
        self._checked_ns = now_ns
        busy_since_ns = self._loop.busy_since_ns
        if self._stalled_since_ns and busy_since_ns != self._stalled_since_ns:
            stalled_ns, self._stalled_since_ns = now_ns - self._stalled_since_ns, 0
            self._response.on_recovered(stalled_ns // 1_000_000)
        if not busy_since_ns or self._stalled_since_ns or now_ns - busy_since_ns - late_ns < self._bound_ns:
            return
        self._stalled_since_ns = busy_since_ns
        self._response.on_stalled((now_ns - busy_since_ns) // 1_000_000)

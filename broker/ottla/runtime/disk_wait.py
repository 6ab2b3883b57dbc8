"""`DiskWait`: how long the event loop has been waiting for a disk, for probes that decide about restarts."""

import threading
from collections.abc import Callable
from typing import Final

from ottla.ports import Clock
from ottla.runtime.stall_watch import WatchedLoop
from ottla.runtime.thread_state import WAITS_FOR_DISK, read_thread_state

_BRIEF_NS: Final = 1_000_000_000


class DiskWait:
    """Created on the thread of the loop; read on any other."""

    def __init__(self, loop: WatchedLoop, clock: Clock, read_state: Callable[[int], str] = read_thread_state) -> None:
        self._loop = loop
        self._clock = clock
        self._read_state = read_state
        self._native_thread = threading.get_native_id()

    def elapsed_s(self) -> float:
        """Return the seconds of the iteration under way if its thread waits for a disk now, else 0.

        An iteration of less than a second does not count, and its thread's state is not read from /proc.
        """
        busy_since_ns = self._loop.busy_since_ns
        if not busy_since_ns:
            return 0.0
        busy_ns = self._clock.monotonic_ns() - busy_since_ns
        if busy_ns < _BRIEF_NS or self._read_state(self._native_thread) != WAITS_FOR_DISK:
            return 0.0
        return busy_ns / 1e9

"""`OffLoop`: background work with bounded memory, whose time is charged to a client's quota."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ottla.ports import Background, Clock
from ottla.purgatory.in_background import in_background
from ottla.purgatory.memory_budget import NO_LIMIT_BYTES, MemoryBudget
from ottla.purgatory.steps import Steps

T = TypeVar("T")


def _ignore(_: int) -> None:
    """Charge the time to no client: there are no quotas."""


class OffLoop(NamedTuple):
    """Threads, the memory budget of their work, the clock, and a callback that receives the time of each work."""

    background: Background
    memory: MemoryBudget
    clock: Clock
    on_worked: Callable[[int], object] = _ignore
    """Called on the loop with the nanoseconds of each work."""

    def hold(self, size_bytes: int) -> "HeldMemory":
        """Return memory that is held from its `HeldMemory.acquire` to its `HeldMemory.release`."""
        return HeldMemory(self, size_bytes)


def in_place(clock: Clock) -> OffLoop:
    """Return an `OffLoop` that performs all work in place, without limits: for tools, tests and short work."""
    return OffLoop(_InPlace(), MemoryBudget(NO_LIMIT_BYTES), clock)


class _InPlace:
    """`Background` without threads; unlike there, ``done`` is called before `run` returns."""

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:  # as on threads, the caller decides about it
            outcome = error
        done(outcome)


class HeldMemory:
    """Bytes of a `MemoryBudget` that steps and their work off the loop hold; released when both have ended.

    Steps that are closed while a thread works for them leave the bytes to that thread.

    Attributes:
        worked_ns: time that the last work took.
    """

    def __init__(self, off_loop: OffLoop, size_bytes: int) -> None:
        self._off_loop = off_loop
        self._size_bytes = size_bytes
        self._is_held = self._is_working = self._is_over = False
        self.worked_ns = 0

    def acquire(self) -> Steps[None]:
        """Wait for the bytes; steps that are closed while they wait do not get them."""
        granted = self._off_loop.memory.acquire(self._size_bytes)
        try:
            if not granted.is_complete:
                yield granted
        finally:
            self._is_held = granted.is_complete
            if not granted.is_complete:
                granted.abandon()

    def work(self, work: Callable[[], T]) -> Steps[T]:
        """Perform ``work`` off the loop, as `in_background` does; if no thread can be created, on the loop."""
        clock = self._off_loop.clock
        has_started = False

        def start() -> T:
            nonlocal has_started
            has_started = True
            started_ns = clock.monotonic_ns()
            try:
                return work()
            finally:
                self.worked_ns = clock.monotonic_ns() - started_ns

        self._is_working, self.worked_ns = True, 0
        try:
            return (yield from in_background(self._off_loop.background, start, on_end=self._on_work_ended))
        except RuntimeError:
            if has_started:
                raise
            return work()

    def _on_work_ended(self) -> None:
        self._is_working = False
        self._off_loop.on_worked(self.worked_ns)
        if self._is_over:
            self._release_bytes()

    def release(self) -> None:
        """Release the bytes, now or when the thread's work has ended."""
        self._is_over = True
        if not self._is_working:
            self._release_bytes()

    def _release_bytes(self) -> None:
        if self._is_held:
            self._is_held = False
            self._off_loop.memory.release(self._size_bytes)

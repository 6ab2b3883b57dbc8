"""`Delayed`: a value that a later event delivers, once."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_PENDING: object = object()
_ABANDONED: object = object()


class Delayed(Generic[T]):
    """One-shot, single-threaded future: callbacks run when the value is delivered, or at once if it has been."""

    __slots__ = ("_callbacks", "_value", "on_abandon")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._callbacks: list[Callable[[T], object]] = []
        self.on_abandon: Callable[[], object] | None = None
        """Called when the value is abandoned; None: then the value is delivered anyway."""

    @classmethod
    def of(cls, value: T) -> "Delayed[T]":
        """Return a complete one with ``value``."""
        done: Delayed[T] = cls()
        done._value = value
        return done

    @property
    def is_complete(self) -> bool:
        """Whether the value was delivered, or never will be."""
        return self._value is not _PENDING

    @property
    def value(self) -> T:
        """The value; only available when complete."""
        assert self._value is not _PENDING, "not complete yet"
        assert self._value is not _ABANDONED, "abandoned by its waiter"
        return self._value  # type: ignore[return-value]

    def complete(self, value: T) -> bool:
        """Deliver ``value``; return False, and change nothing, if one was delivered before."""
        if self._value is not _PENDING:
            return False
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)
        return True

    def abandon(self) -> None:
        """Stop waiting for the value: with ``on_abandon``, it is never delivered."""
        if self._value is _PENDING and self.on_abandon is not None:
            self._value = _ABANDONED
            self._callbacks.clear()
            self.on_abandon()

    def on_complete(self, callback: Callable[[T], object]) -> None:
        if self._value is _PENDING:
            self._callbacks.append(callback)
        elif self._value is not _ABANDONED:
            callback(self._value)  # type: ignore[arg-type]

    def then(self, change: Callable[[T], U]) -> "Delayed[U]":
        """Return a Delayed that completes with ``change`` of this one's value."""
        changed: Delayed[U] = Delayed()
        self.on_complete(lambda value: changed.complete(change(value)))
        return changed

    def then_compose(self, start: Callable[[T], "Delayed[U]"]) -> "Delayed[U]":
        """Return a Delayed of the value that ``start`` waits for, which is called with this one's value."""
        composed: Delayed[U] = Delayed()
        self.on_complete(lambda value: start(value).on_complete(composed.complete))
        return composed


def when_all(parts: list[Delayed[T]]) -> Delayed[list[T]]:
    """Return a Delayed of every part's value, in order; complete at once if ``parts`` is empty."""
    whole: Delayed[list[T]] = Delayed()
    missing = len(parts)

    def on_part(_: T) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            whole.complete([part.value for part in parts])

    if not parts:
        whole.complete([])
    for part in parts:
        part.on_complete(on_part)
    return whole

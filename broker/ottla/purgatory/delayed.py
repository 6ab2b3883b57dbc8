"""`Delayed`: a value that some later event delivers, once."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_PENDING: object = object()
_ABANDONED: object = object()


class Delayed(Generic[T]):
    """A one-shot, single-threaded promise: callbacks run at once when the value is there, else when it comes."""

    __slots__ = ("_callbacks", "_value", "on_abandon")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._callbacks: list[Callable[[T], object]] = []
        self.on_abandon: Callable[[], object] | None = None
        """What to do when nobody waits for the value any more; None: then it is delivered all the same."""

    @classmethod
    def of(cls, value: T) -> "Delayed[T]":
        """Return one that is complete already."""
        done: Delayed[T] = cls()
        done._value = value
        return done

    @property
    def is_complete(self) -> bool:
        """Whether the value is there, or will never come."""
        return self._value is not _PENDING

    @property
    def value(self) -> T:
        """The value; only to be asked for when complete."""
        assert self._value is not _PENDING, "not complete yet"
        assert self._value is not _ABANDONED, "abandoned by who waited for it"
        return self._value  # type: ignore[return-value]

    def complete(self, value: T) -> bool:
        """Deliver ``value``; return False, and change nothing, when one was delivered before."""
        if self._value is not _PENDING:
            return False
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)
        return True

    def abandon(self) -> None:
        """Say that nobody waits for the value any more: where that is of use, it never comes."""
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


def when_all(parts: list[Delayed[T]]) -> Delayed[list[T]]:
    """Return a Delayed of every part's value, in order; complete at once when ``parts`` is empty."""
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

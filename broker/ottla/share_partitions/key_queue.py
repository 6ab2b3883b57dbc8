"""`KeyQueue`: keys in the order in which they were added, each once."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyQueue(Generic[K]):
    """See the module. A dictionary would not do: its first entry is found past all that were removed before it."""

    __slots__ = ("_keys", "_queued")

    def __init__(self) -> None:
        self._keys: deque[K] = deque()
        self._queued: set[K] = set()

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def append(self, key: K) -> None:
        """Add a key at the end, unless it is in the queue."""
        if key not in self._queued:
            self._queued.add(key)
            self._keys.append(key)

    def pop(self) -> K:
        """Remove and return the first key."""
        key = self._keys.popleft()
        self._queued.remove(key)
        return key

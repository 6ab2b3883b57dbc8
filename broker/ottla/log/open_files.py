"""The segments that hold a file descriptor, so that a node with many partitions does not run out of them.

A clock algorithm, not a true LRU: the data path only sets ``was_used``; opening one file too many closes the first
file that was not used since the previous round.
"""

from collections import deque
from typing import Protocol

OPEN_FILES_MAX = 512
"""Half of the usual limit of a process; sockets need theirs. The runtime derives a better value from the real limit."""


class FileHolder(Protocol):
    """An owner of a descriptor that it can open again."""

    was_used: bool

    def release(self) -> None:
        """Close the descriptor, and drop from memory all that can be read again."""


class OpenFiles:
    """See the module. One per node; ``limit`` is the number of segments that may be open at once."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        assert limit > 0, "no file could ever be open"
        self.limit = limit
        self._holders: deque[FileHolder] = deque()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: FileHolder) -> None:
        """Register that ``holder`` has opened its file; release another one above the limit."""
        self._holders.append(holder)
        if len(self._holders) > self.limit:
            self._release_one()

    def closed(self, holder: FileHolder) -> None:
        """Unregister ``holder``, which has closed its file."""
        self._holders.remove(holder)

    def _release_one(self) -> None:
        while True:
            oldest = self._holders.popleft()
            if not oldest.was_used:
                oldest.release()
                return
            oldest.was_used = False
            self._holders.append(oldest)

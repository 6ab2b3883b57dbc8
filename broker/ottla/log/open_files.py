"""Which segments hold a descriptor, so that a node with many partitions does not run out of them.

A clock, not a true LRU: the data path only sets ``was_used``, and whoever opens one file too many goes round and closes
the first that was not used since the last round.
"""

from collections import deque
from typing import Protocol

OPEN_FILES_MAX = 512
"""Half of what a process may usually have; sockets need theirs. The runtime, which can ask, gives a better number."""


class FileHolder(Protocol):
    """Something with a descriptor that it can open again."""

    was_used: bool

    def release(self) -> None:
        """Let go of the descriptor and of whatever else can be read again."""


class OpenFiles:
    """See the module. One per node; ``limit`` is the number of segments that may be open at once."""

    def __init__(self, limit: int = OPEN_FILES_MAX) -> None:
        assert limit > 0, "no file could ever be open"
        self.limit = limit
        self._holders: deque[FileHolder] = deque()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: FileHolder) -> None:
        """Note that ``holder`` has opened its file; release another when that is one too many."""
        self._holders.append(holder)
        if len(self._holders) > self.limit:
            self._release_one()

    def closed(self, holder: FileHolder) -> None:
        """Note that ``holder`` has closed its file by itself."""
        self._holders.remove(holder)

    def _release_one(self) -> None:
        while True:
            oldest = self._holders.popleft()
            if not oldest.was_used:
                oldest.release()
                return
            oldest.was_used = False
            self._holders.append(oldest)

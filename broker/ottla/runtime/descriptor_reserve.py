"""`DescriptorReserve`: a few descriptors that are closed when none is left, so that the disk can open files.

Clients cannot exhaust them: max.connections stays below the limit by more than these. Other causes of reaching the
limit of the process or of the system are rare: another process, a lowered limit, thousands of peer connections.
"""

import errno
import os
from typing import Final

SIZE: Final = 32
_SHORT: Final = (errno.EMFILE, errno.ENFILE)


class DescriptorReserve:
    """Reserved file descriptors.

    Args of the constructor:
        size: number of reserved descriptors.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._held: list[int] = []
        while self.is_short and self.refill():
            pass

    @property
    def is_short(self) -> bool:
        """Whether some of the reserve is in use."""
        return len(self._held) < self._size

    def give_up_for(self, error: OSError) -> bool:
        """Close one if ``error`` is a shortage of descriptors; return whether the failed call may be retried."""
        if error.errno not in _SHORT or not self._held:
            return False
        os.close(self._held.pop())
        return True

    def refill(self) -> bool:
        """Reserve one again; return False while none is free."""
        try:
            self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

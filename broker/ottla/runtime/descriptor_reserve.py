"""`DescriptorReserve`: a few descriptors that are closed when none is left, so that the disk gets the next ones.

Clients cannot take them: max.connections stays below the limit by more than these. What else may run into the limit of
the process, or of the system, is rare: another process, a limit that was lowered, thousands of connections of peers.
"""

import errno
import os
from typing import Final

SIZE: Final = 32
_SHORT: Final = (errno.EMFILE, errno.ENFILE)


class DescriptorReserve:
    """See the module.

    Args of the constructor:
        size: how many descriptors are held.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._held: list[int] = []
        while self.is_short and self.refill():
            pass

    @property
    def is_short(self) -> bool:
        """Whether some have been given up."""
        return len(self._held) < self._size

    def give_up_for(self, error: OSError) -> bool:
        """Close one, where ``error`` says that none was left; return whether what failed may be tried again."""
        if error.errno not in _SHORT or not self._held:
            return False
        os.close(self._held.pop())
        return True

    def refill(self) -> bool:
        """Take one back; return False while there is none."""
        try:
            self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return False
        return True

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

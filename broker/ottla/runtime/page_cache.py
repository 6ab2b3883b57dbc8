"""Is a piece of a file in the page cache, and if not, have it read there by another thread.

`sendfile` of bytes that are only on the disk would stop the loop for as long as the disk takes. Two reads with
RWF_NOWAIT, of the first byte and of the last, tell: readers go forward, so that what lies between was read with them.
Where the system or the file system has no such read, everything counts as cached.
"""

import errno
import os
from collections.abc import Callable
from functools import partial

from ottla.runtime.worker_threads import WorkerThreads

_PIECE_BYTES = 1024 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class PageCache:
    """Asks the kernel; its threads are made when the first cold read comes."""

    def __init__(self, *, threads: int = 2) -> None:
        self._threads = WorkerThreads("cold-read", threads)
        self._byte = bytearray(1)
        self._can_tell = bool(_NOWAIT)
        self.cold_reads = 0

    def holds(self, descriptor: int, position: int, size_bytes: int) -> bool:
        """Return whether reading ``size_bytes`` (> 0) from ``position`` need not wait for the disk."""
        if not self._can_tell:
            return True
        try:
            os.preadv(descriptor, [self._byte], position, _NOWAIT)
            os.preadv(descriptor, [self._byte], position + size_bytes - 1, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self._can_tell = False
        return True

    def load(self, descriptor: int, position: int, size_bytes: int, done: Callable[[], None]) -> bool:
        """Read the piece on another thread, then call ``done`` there, whether the disk could read it or not.

        An error is not reported here: the `sendfile` that follows meets it again. Return False where there is no
        descriptor or no thread left to read with: `sendfile` waits for the disk then.
        """
        self.cold_reads += 1
        try:
            # A descriptor of its own: the file may be closed, and the number used again, before the thread gets to it.
            copy = os.dup(descriptor)
        except OSError:
            return False
        if self._threads.submit(partial(_read, copy, position, size_bytes, done)):
            return True
        os.close(copy)
        return False

    def close(self) -> None:
        self._threads.drop_waiting()
        self._threads.close()


def _read(descriptor: int, position: int, size_bytes: int, done: Callable[[], None]) -> None:
    buffer = bytearray(min(size_bytes, _PIECE_BYTES))
    try:
        end = position + size_bytes
        while position < end:
            read = os.preadv(descriptor, [memoryview(buffer)[: end - position]], position)
            if read == 0:
                break
            position += read
    except OSError:
        pass  # see `load`
    finally:
        os.close(descriptor)
        done()

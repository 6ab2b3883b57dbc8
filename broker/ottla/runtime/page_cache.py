"""Is a piece of a file in the page cache, and if not, have it read there by another thread.

`sendfile` of bytes that are only on the disk would stop the loop for as long as the disk takes. Two reads with
RWF_NOWAIT, of the first byte and of the last, tell: readers go forward, so that what lies between was read with them.
Where the system or the file system has no such read, everything counts as cached.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_PIECE_BYTES = 1024 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class PageCache:
    """Asks the kernel; its threads are made when the first cold read comes."""

    def __init__(self, *, threads: int = 2) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
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

    def load(self, descriptor: int, position: int, size_bytes: int, done: Callable[[], None]) -> None:
        """Read the piece on another thread, then call ``done`` there, whether the disk could read it or not.

        An error is not reported here: the `sendfile` that follows meets it again.
        """
        self.cold_reads += 1
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="cold-read")
        # A descriptor of its own: the file may be closed, and the number used again, before the thread gets to it.
        self._pool.submit(_read, os.dup(descriptor), position, size_bytes, done)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


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

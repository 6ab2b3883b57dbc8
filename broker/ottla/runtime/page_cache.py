"""`PageCache`: checks whether a part of a file is in the page cache; if not, another thread reads it.

`sendfile` of bytes that are only on the disk would block the loop for as long as the disk takes. Two reads with
RWF_NOWAIT, of the first and of the last byte, detect that: consumers read forward, so the bytes in between were read
together with them. If the system or the file system does not support such reads, everything counts as cached.
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
    """Page-cache checks and cold reads; threads are started with the first cold read."""

    def __init__(self, *, threads: int = 2) -> None:
        self._threads = WorkerThreads("cold-read", threads)
        self._byte = bytearray(1)
        self._is_supported = bool(_NOWAIT)
        self.cold_reads = 0

    def holds(self, descriptor: int, position: int, size_bytes: int) -> bool:
        """Return whether reading ``size_bytes`` (> 0) from ``position`` need not wait for the disk."""
        if not self._is_supported:
            return True
        try:
            os.preadv(descriptor, [self._byte], position, _NOWAIT)
            os.preadv(descriptor, [self._byte], position + size_bytes - 1, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self._is_supported = False
        return True

    def load(self, descriptor: int, position: int, size_bytes: int, done: Callable[[], None]) -> bool:
        """Read the part on another thread, then call ``done`` there, also after an error.

        Errors are not reported: the `sendfile` that follows runs into them again. Return False if no descriptor or no
        thread is available: `sendfile` then waits for the disk.
        """
        self.cold_reads += 1
        try:
            # A duplicate: the file may be closed, and its number reused, before the thread reads.
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

"""`BufferPool`: reused buffers for incoming frames, so that a megabyte of records does not need fresh pages.

A small frame is read into the node's scratch buffer and handled there. A larger one gets a buffer of its own until it
has been handled: an anonymous memory map, whose pages are allocated as bytes arrive, so that a peer which announces
100 MiB and sends nothing costs neither memory nor the time to clear it.
"""

import mmap

LARGEST_POOLED_BYTES = 4 * 1024 * 1024
_SMALLEST_BYTES = 64 * 1024
_POOLED_BYTES_MAX = 32 * 1024 * 1024


class BufferPool:
    """Pool of writable buffers; it keeps up to 32 MiB of returned ones by size class."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}
        self._free_bytes = 0

    @property
    def free_bytes(self) -> int:
        """Number of pooled bytes."""
        return self._free_bytes

    def clear(self) -> None:
        """Return the pooled buffers to the system."""
        self._free.clear()
        self._free_bytes = 0

    def acquire(self, size_bytes: int) -> memoryview:
        """Return a writable view of exactly ``size_bytes``; its content is undefined."""
        size_class = allocated_bytes(size_bytes)
        free = self._free.get(size_class)
        if free:
            self._free_bytes -= size_class
            return memoryview(free.pop())[:size_bytes]
        return memoryview(mmap.mmap(-1, size_class))[:size_bytes]

    def release(self, view: memoryview) -> None:
        """Return a view of `acquire` to the pool; it must not be used any more."""
        owner = view.obj
        view.release()
        assert isinstance(owner, mmap.mmap)
        if len(owner) <= LARGEST_POOLED_BYTES and self._free_bytes + len(owner) <= _POOLED_BYTES_MAX:
            self._free.setdefault(len(owner), []).append(owner)
            self._free_bytes += len(owner)


def allocated_bytes(size_bytes: int) -> int:
    """Return the allocated size of a buffer of ``size_bytes``: up to 4 MiB the next power of two."""
    if size_bytes > LARGEST_POOLED_BYTES:
        return size_bytes
    return max(_SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())

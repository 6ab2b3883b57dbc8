"""Buffers for incoming frames: reused, so that a megabyte of records does not cost a megabyte of fresh pages.

A small frame is read into the node's one scratch buffer and handled there. A larger one gets a buffer of its own, for
as long as it takes to arrive and be handled: an anonymous memory map, whose pages come into being as bytes arrive, so
that a peer which claims 100 MiB and sends nothing costs neither the memory nor the time to clear it.
"""

import mmap

LARGEST_POOLED_BYTES = 4 * 1024 * 1024
_SMALLEST_BYTES = 64 * 1024
_POOLED_BYTES_MAX = 32 * 1024 * 1024


class BufferPool:
    """Hands out writable views of at least the asked size; keeps up to 32 MiB of returned buffers by size class."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}
        self._free_bytes = 0

    @property
    def free_bytes(self) -> int:
        """How many bytes wait to be used again."""
        return self._free_bytes

    def clear(self) -> None:
        """Give the buffers that wait to be used again back to the system."""
        self._free.clear()
        self._free_bytes = 0

    def acquire(self, size_bytes: int) -> memoryview:
        """Return a writable view of exactly ``size_bytes``; what it holds is undefined."""
        size_class = allocated_bytes(size_bytes)
        free = self._free.get(size_class)
        if free:
            self._free_bytes -= size_class
            return memoryview(free.pop())[:size_bytes]
        return memoryview(mmap.mmap(-1, size_class))[:size_bytes]

    def release(self, view: memoryview) -> None:
        """Take a view of `acquire` back; nobody may look at it any more."""
        owner = view.obj
        view.release()
        assert isinstance(owner, mmap.mmap)
        if len(owner) <= LARGEST_POOLED_BYTES and self._free_bytes + len(owner) <= _POOLED_BYTES_MAX:
            self._free.setdefault(len(owner), []).append(owner)
            self._free_bytes += len(owner)


def allocated_bytes(size_bytes: int) -> int:
    """Return how many bytes a buffer of ``size_bytes`` takes: up to 4 MiB the next power of two."""
    if size_bytes > LARGEST_POOLED_BYTES:
        return size_bytes
    return max(_SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())

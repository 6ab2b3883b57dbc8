"""Released buffers are reused, within a bound; a buffer takes no memory until bytes arrive."""

import mmap
from pathlib import Path

import pytest

from ottla.network.buffer_pool import LARGEST_POOLED_BYTES, BufferPool

KIB = 1024
MIB = 1024 * KIB
STATM = Path("/proc/self/statm")


def resident_pages() -> int:
    return int(STATM.read_text().split()[1])


@pytest.mark.parametrize(
    "size_bytes", [1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, LARGEST_POOLED_BYTES, LARGEST_POOLED_BYTES + 1]
)
def test_view_has_exactly_the_requested_size_and_is_writable(size_bytes: int) -> None:
    view = BufferPool().acquire(size_bytes)
    view[-1] = 7

    assert len(view) == size_bytes
    assert view[-1] == 7


def test_released_buffer_is_reused() -> None:
    pool = BufferPool()
    first = pool.acquire(100 * KIB)
    owner = first.obj

    pool.release(first)
    assert pool.free_bytes == 128 * KIB
    second = pool.acquire(65 * KIB)

    assert second.obj is owner
    assert len(second) == 65 * KIB
    assert pool.free_bytes == 0


def test_smaller_buffer_is_not_used_for_a_larger_request() -> None:
    pool = BufferPool()
    small = pool.acquire(64 * KIB)
    owner = small.obj
    pool.release(small)

    assert pool.acquire(64 * KIB + 1).obj is not owner
    assert pool.free_bytes == 64 * KIB


def test_released_view_is_unusable() -> None:
    pool = BufferPool()
    view = pool.acquire(10)
    pool.release(view)

    with pytest.raises(ValueError, match="released"):
        view[0] = 1


def test_pool_keeps_at_most_32_mib() -> None:
    pool = BufferPool()
    views = [pool.acquire(4 * MIB) for _ in range(12)]
    for view in views:
        pool.release(view)

    assert pool.free_bytes == 32 * MIB


def test_too_large_buffer_is_not_pooled() -> None:
    pool = BufferPool()
    pool.release(pool.acquire(LARGEST_POOLED_BYTES + 1))

    assert pool.free_bytes == 0


@pytest.mark.skipif(not STATM.exists(), reason="the system does not report resident pages")
@pytest.mark.parametrize("size_bytes", [MIB, LARGEST_POOLED_BYTES, 64 * MIB], ids=["1-MiB", "4-MiB", "64-MiB"])
def test_announced_bytes_take_no_memory_before_they_arrive(size_bytes: int) -> None:
    pool = BufferPool()
    before_pages = resident_pages()
    views = [pool.acquire(size_bytes) for _ in range(64 * MIB // size_bytes)]
    for view in views:
        view[:10] = bytes(10)

    grown_bytes = (resident_pages() - before_pages) * mmap.PAGESIZE
    assert grown_bytes < 8 * MIB

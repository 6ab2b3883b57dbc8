"""The page cache has bytes that were just written, and lacks evicted ones until another thread has read them."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.runtime.page_cache import PageCache

SIZE_BYTES = 8 * 1024 * 1024


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    """A file whose bytes are on the disk and in the page cache."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE_BYTES))
    opened = os.open(path, os.O_RDONLY)
    os.fsync(opened)
    yield opened
    os.close(opened)


def evict(descriptor: int) -> None:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def test_written_bytes_are_in_the_cache(descriptor: int) -> None:
    assert PageCache().holds(descriptor, 0, SIZE_BYTES)


def test_evicted_bytes_are_missing_and_can_be_loaded(descriptor: int) -> None:
    cache = PageCache()
    evict(descriptor)
    if cache.holds(descriptor, 0, SIZE_BYTES):
        pytest.skip("this file system does not report cached pages, or does not evict them")
    loaded = threading.Event()

    cache.load(descriptor, 0, SIZE_BYTES, loaded.set)

    assert loaded.wait(30)
    assert cache.holds(descriptor, 0, SIZE_BYTES)
    assert cache.cold_reads == 1
    cache.close()


def test_loading_beyond_the_end_of_a_file_ends(descriptor: int) -> None:
    cache = PageCache()
    loaded = threading.Event()

    cache.load(descriptor, SIZE_BYTES - 10, 100, loaded.set)

    assert loaded.wait(30)
    cache.close()


def test_cold_read_without_a_thread_is_left_to_the_caller(descriptor: int, start_limit: Callable[[int], None]) -> None:
    cache = PageCache()
    start_limit(0)

    assert not cache.load(descriptor, 0, 10, lambda: None)
    cache.close()


def test_cold_read_without_a_descriptor_is_left_to_the_caller(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PageCache()

    def dup(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", dup)

    assert not cache.load(descriptor, 0, 10, lambda: None)

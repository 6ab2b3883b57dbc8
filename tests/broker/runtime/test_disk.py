"""The real disk on a real directory: the same guarantees as the simulated one, plus locks and threads."""

import errno
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.ports import File
from ottla.runtime.disk import BUFFERS_PER_CALL_MAX, OsDisk, OsFile


class Loop:
    """Fake loop: posted actions wait until the test runs them."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()

    def run_one(self) -> None:
        self.posted.get(timeout=30)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def disk(loop: Loop) -> Iterator[OsDisk]:
    disk = OsDisk(loop.posted.put)
    yield disk
    disk.close()


@pytest.fixture
def file(disk: OsDisk, tmp_path: Path) -> File:
    return disk.open(str(tmp_path / "file"), create=True)


def test_buffers_are_written_one_after_the_other(file: File) -> None:
    assert file.pwritev([b"ab", bytearray(b"cd"), memoryview(b"efg")], 3) == 7

    assert file.pread(100, 0) == b"\0\0\0abcdefg"
    assert file.size_bytes() == 10


def test_more_buffers_than_one_call_takes_are_written_too(file: File) -> None:
    buffers = [index.to_bytes(2) for index in range(BUFFERS_PER_CALL_MAX + 10)]

    assert file.pwritev(buffers, 1) == 2 * len(buffers)

    assert file.pread(10_000, 1) == b"".join(buffers)


def test_rest_of_a_short_write_is_written(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda descriptor, buffers, at: whole(descriptor, [bytes(buffers[0][:1])], at))

    assert file.pwritev([b"abc", b"def"], 0) == 6

    assert file.pread(100, 0) == b"abcdef"


def test_short_read_is_completed(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    file.pwritev([b"abcdef"], 0)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: whole(descriptor, min(size, 2), at))

    assert file.pread(5, 0) == b"abcde"
    assert file.pread(100, 0) == b"abcdef"


def test_missing_file_is_created_only_on_request(disk: OsDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        disk.size_bytes(str(tmp_path / "missing"))


def test_garbage_collected_file_closes_its_descriptor(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "file"), create=True)
    descriptor = file.fileno()
    del file

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_names_are_listed_renamed_and_removed(disk: OsDisk, tmp_path: Path) -> None:
    root = str(tmp_path)
    disk.make_directory(f"{root}/x/y")
    disk.make_directory(f"{root}/x/y")
    for name in ("b", "a"):
        disk.open(f"{root}/x/{name}", create=True).close()
    disk.rename(f"{root}/x/a", f"{root}/x/b")
    disk.sync_directory(f"{root}/x")
    assert disk.list_directory(f"{root}/x") == ["b", "y"]

    disk.remove(f"{root}/x/b")
    disk.remove_tree(f"{root}/x")

    assert not disk.exists(f"{root}/x")


@pytest.mark.parametrize("remove", ["file", "tree"])
def test_large_file_is_freed_by_another_thread(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: str
) -> None:
    folder = tmp_path / "t-0.delete"
    folder.mkdir()
    (folder / "small").write_bytes(b"x")
    large = folder / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    freed_by: list[str] = []
    close = os.close

    def watched_close(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == 1 << 30:
            freed_by.append(threading.current_thread().name)
        close(descriptor)

    monkeypatch.setattr(os, "close", watched_close)

    disk.remove(str(large)) if remove == "file" else disk.remove_tree(str(folder))

    assert not large.exists()
    disk.close()
    assert [name.rstrip("_0123456789") for name in freed_by] == ["ottla-disk"]


def test_large_file_is_removed_when_no_descriptor_is_left(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 30)

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", fail)
        disk.remove(str(large))

    assert not large.exists()


def test_removing_missing_file_fails(disk: OsDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.remove(str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError):
        disk.remove_tree(str(tmp_path / "nothing"))


def test_lock_excludes_this_process_and_others(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    disk.lock(path)

    with pytest.raises(BlockingIOError):
        disk.lock(path)
    # The JVM's Kafka takes POSIX locks: another process must conflict with one.
    code = f"import fcntl; fcntl.lockf(open({path!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode != 0
    disk.unlock(path)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    disk.lock(path)


def test_completed_sync_is_reported_on_the_loop(disk: OsDisk, loop: Loop, file: File, tmp_path: Path) -> None:
    done: list[OSError | None] = []
    file.pwritev([b"x"], 0)

    disk.sync_later([file, disk.open(str(tmp_path), read_only=True)], done.append)
    loop.run_one()

    assert done == [None]


def test_failed_sync_is_reported_with_its_error(disk: OsDisk, loop: Loop, file: File) -> None:
    done: list[OSError | None] = []
    file.close()

    disk.sync_later([file], done.append)
    loop.run_one()

    assert isinstance(done[0], OSError)


def test_sync_all_syncs_every_file_concurrently(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [disk.open(str(tmp_path / str(number)), create=True) for number in range(100)]
    synced: list[File] = []
    together = threading.Barrier(4, timeout=10)
    monkeypatch.setattr(OsFile, "sync", lambda file: synced.append(file) or together.wait())

    disk.sync_all(files)

    assert {file.path for file in synced} == {file.path for file in files}


@pytest.mark.parametrize("count", [1, 3])
def test_one_failed_sync_of_many_is_raised(disk: OsDisk, tmp_path: Path, count: int) -> None:
    files = [disk.open(str(tmp_path / str(number)), create=True) for number in range(count)]
    files[-1].close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.sync_all(files)


def test_space_is_that_of_the_file_system(disk: OsDisk, tmp_path: Path) -> None:
    space = disk.space(str(tmp_path))

    assert 0 < space.usable_bytes <= space.total_bytes


# --- without threads


def test_syncs_run_on_the_loop_if_no_thread_can_be_started(
    disk: OsDisk, loop: Loop, file: File, tmp_path: Path, start_limit: Callable[[int], None]
) -> None:
    start_limit(0)
    outcomes: list[OSError | None] = []
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 1 << 30)

    disk.sync_later([file], outcomes.append)
    disk.sync_all([file, file])
    disk.remove(str(large))
    loop.run_one()

    assert outcomes == [None]
    assert not large.exists()


def test_unexpected_exception_of_a_sync_is_reported_as_an_io_error(
    disk: OsDisk, loop: Loop, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[OSError | None] = []

    def sync(_: OsFile) -> None:
        raise MemoryError

    monkeypatch.setattr(OsFile, "sync", sync)
    disk.sync_later([file], outcomes.append)
    loop.run_one()

    (error,) = outcomes
    assert error is not None
    assert error.errno == errno.EIO
    assert "MemoryError" in str(error)


# --- without inodes


@pytest.mark.parametrize(
    ("inodes_left", "message"), [(0, "No inodes left on device: all 1000 are used"), (1, "No space left on device")]
)
def test_error_names_inodes_if_file_system_has_none_left(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inodes_left: int, message: str
) -> None:
    real = os.statvfs(tmp_path)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def statvfs(_: str) -> os.statvfs_result:
        return os.statvfs_result((*real[:5], 1000, inodes_left, inodes_left, *real[8:]))

    monkeypatch.setattr(os, "open", fail)
    monkeypatch.setattr(os, "statvfs", statvfs)

    with pytest.raises(OSError, match=message) as raised:
        disk.open(str(tmp_path / "t-0" / "file"), create=True)
    assert raised.value.errno == errno.ENOSPC

"""The real disk: `ottla.ports.Disk` and `File` over system calls.

Syncs run on a few threads, because one may take seconds; their completions return to the loop through ``post``. If the
system starts no thread at all, they run on the loop: slow, but no reason to take a log directory offline. The threads
also free the blocks of large removed files, whose names are unlinked at once. Every other operation is one short system
call on the page cache, on the caller's thread.
"""

import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from struct import pack

from ottla.ports import Buffer, DiskSpace, File, sync_in_turn
from ottla.quoting import describe_error
from ottla.runtime.descriptor_reserve import DescriptorReserve
from ottla.runtime.worker_threads import WorkerThreads

_FREED_ELSEWHERE_BYTES = 16 * 1024 * 1024
"""Freeing the blocks of a GiB takes about 70 ms: a thread frees files of this size and more."""

_SYNCS_AT_ONCE = 16
"""A journal commits concurrent syncs together: thousands of small files take a thirtieth of the time."""

_SYNC_THREADS = 4
"""With ottla.acks.fsync four acknowledge 1.2 to 1.5 times as many produces to six partitions as two; eight no more."""

BUFFERS_PER_CALL_MAX = 1024
"""IOV_MAX of Linux and macOS: a pwritev of more buffers fails."""

_sync_data = getattr(os, "fdatasync", os.fsync)
"""fdatasync also writes the file's size, the only metadata that a log needs."""


def _take_lock(descriptor: int) -> None:
    """Lock a file against other processes, also the JVM's Kafka with its POSIX locks, and against this process itself.

    Plain POSIX locks belong to the process and are released when it closes any descriptor of the file; Linux also has
    locks that belong to the descriptor. On other systems flock excludes this process.
    """
    if sys.platform == "linux":
        # struct flock: exclusive, from the start of the file to its end.
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _run_on_no_loop(_: Callable[[], None]) -> None:
    raise AssertionError("the process of a task has no loop")


class OsFile:
    """File descriptor that is closed by `close`, or with its last reference.

    The latter matters: a segment whose descriptor the log has released may still be queued for a socket as a
    `FileSlice`, and must stay readable until it has been sent.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OsFile({self._path!r}, descriptor {self._descriptor})"

    @property
    def path(self) -> str:
        return self._path

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def pread(self, size_bytes: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size_bytes, position)
        if len(data) == size_bytes or not data:
            return data
        # The kernel may return less than there is (above 2 GiB, or interrupted); only an empty read is the end.
        pieces = [data]
        missing = size_bytes - len(data)
        while missing > 0 and data:
            data = os.pread(self._descriptor, missing, position + size_bytes - missing)
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        size_bytes = sum(map(len, buffers))
        if len(buffers) <= BUFFERS_PER_CALL_MAX:
            written = os.pwritev(self._descriptor, buffers, position)
            if written == size_bytes:
                return size_bytes
        else:
            written = 0
        self._write_rest(buffers, position, written)
        return size_bytes

    def _write_rest(self, buffers: Sequence[Buffer], position: int, written: int) -> None:
        """Write the rest after a short write: a signal, a full disk (which then raises), or too many buffers."""
        skip = written
        for buffer in buffers:
            view = memoryview(buffer).cast("B")
            if skip >= len(view):
                skip -= len(view)
                continue
            view = view[skip:]
            skip = 0
            while view:
                count = os.pwrite(self._descriptor, view, position + written)
                written += count
                view = view[count:]

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        _sync_data(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def with_shortage_of_inodes(error: OSError, path: str) -> OSError:
    """Return ``error``, or a clearer one if the file system has free bytes but no free inodes.

    The system reports both as "No space left on device", which sends an administrator looking for the bytes.
    """
    if error.errno != errno.ENOSPC:
        return error
    folder = path
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder) or "."
    found = os.statvfs(folder)
    if found.f_files == 0 or found.f_favail > 0:
        return error
    free_bytes = found.f_bavail * found.f_frsize
    message = f"No inodes left on device: all {found.f_files} are used, and {free_bytes} bytes are free"
    return OSError(errno.ENOSPC, message, path)


class OsDisk:
    """`ottla.ports.Disk` of the operating system.

    Args of the constructor:
        post: schedules a function on the loop; called from the threads.
        reserve: descriptors that are closed when opening a file fails for lack of one.
        sync_threads: maximum of concurrent syncs (and large removals); threads are started on demand.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], object],
        *,
        sync_threads: int = _SYNC_THREADS,
        reserve: DescriptorReserve | None = None,
    ) -> None:
        self._reserve = reserve
        self._post = post
        self._threads = WorkerThreads("ottla-disk", sync_threads)
        self._locks: dict[str, int] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Become, in the process of a task, a disk without a loop, locks and reserve."""
        return OsDisk, (_run_on_no_loop,)

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> OsFile:
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if create:
            flags |= os.O_CREAT
        return OsFile(path, self._open(path, flags))

    def _open(self, path: str, flags: int) -> int:
        reserve = self._reserve
        try:
            descriptor = os.open(path, flags, 0o644)
        except OSError as error:
            if reserve is None or not reserve.give_up_for(error):
                raise with_shortage_of_inodes(error, path) from None
            return os.open(path, flags, 0o644)
        if reserve is not None and reserve.is_short:
            reserve.refill()
        return descriptor

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size_bytes(self, path: str) -> int:
        return os.stat(path).st_size

    def space(self, path: str) -> DiskSpace:
        found = os.statvfs(path)
        return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise with_shortage_of_inodes(error, path) from None

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        if os.lstat(path).st_size < _FREED_ELSEWHERE_BYTES:
            os.remove(path)
            return
        # While the file is open, unlinking removes the name only; the thread that closes it waits for its blocks.
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            # A shortage of descriptors is no reason to keep a file, and no disk error.
            os.remove(path)
            return
        try:
            os.remove(path)
        finally:
            self._run(partial(os.close, descriptor))

    def remove_tree(self, path: str) -> None:
        for folder, _, names in os.walk(path):
            for name in names:
                file = os.path.join(folder, name)
                if os.lstat(file).st_size >= _FREED_ELSEWHERE_BYTES:
                    self.remove(file)
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = self._open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _take_lock(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        self._locks[path] = descriptor

    def unlock(self, path: str) -> None:
        descriptor = self._locks.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def lock_descriptors(self) -> Sequence[int]:
        """Return the descriptors of the locks, for a process that writes in the locked directories.

        It holds the locks as well, so that no other node starts there as long as it lives.
        """
        return tuple(self._locks.values())

    def sync_all(self, files: Sequence[File]) -> None:
        if not files:
            return
        threads = WorkerThreads("ottla-sync", _SYNCS_AT_ONCE)
        errors: list[Exception] = []

        def sync(file: File) -> None:
            try:
                file.sync()
            except Exception as error:
                errors.append(error)

        for file in files:
            if not threads.submit(partial(sync, file)):
                sync(file)
        threads.close()
        if errors:
            raise errors[0]

    def sync_later(self, files: Sequence[File], done: Callable[[OSError | None], None]) -> None:
        self._run(partial(self._sync_all, tuple(files), done))

    def _run(self, work: Callable[[], object]) -> None:
        if not self._threads.submit(work):
            work()

    def _sync_all(self, files: Sequence[File], done: Callable[[OSError | None], None]) -> None:
        error: OSError | None
        try:
            error = sync_in_turn(files)
        except Exception as unexpected:
            # It is unknown whether the files are durable: as after an I/O error, the directory goes offline.
            error = OSError(errno.EIO, describe_error(unexpected))
        self._post(lambda: done(error))

    def close(self) -> None:
        """Wait for running syncs, end the threads and release the locks."""
        self._threads.close()
        for path in tuple(self._locks):
            self.unlock(path)

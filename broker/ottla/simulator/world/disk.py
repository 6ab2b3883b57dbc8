"""A disk in memory that fails on demand, for the simulator and for tests of storage.

Written data and data that would survive a power cut are kept apart. A file remembers the writes and truncations
since its last sync; the name space (creations, renames, removals) remembers its operations since any file or directory
was synced, because a journaling file system commits them in order. `crash` throws away a suffix of each, may tear the
first lost write at a byte and flip a bit in the rest of unsynced ones; `kill` is only the end of a process and
loses nothing.

Faults: `fail_next` makes the n-th matching operation raise an error number, ``capacity_bytes`` makes the disk run full,
both after part of a write has landed, as on real disks; `break_directory` makes everything below a directory fail.
Every operation is counted in ``operations``.
"""

import errno
import os
import posixpath
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.ports import Buffer, DiskSpace, File, Random, sync_in_turn
from ottla.simulator.world.inode import Change, Inode


@dataclass(slots=True)
class _Fault:
    operation: str
    error_number: int
    path_part: str
    skip: int


_NameSpaceChange = Callable[["_NameSpace"], object]


@dataclass(slots=True)
class _NameSpace:
    files: dict[str, Inode] = field(default_factory=dict)
    directories: set[str] = field(default_factory=lambda: {"/", "."})

    def copy(self) -> "_NameSpace":
        return _NameSpace(dict(self.files), set(self.directories))


class SimulatedFile:
    """An open file of a `SimulatedDisk`; every use after a crash of the host or process raises EBADF."""

    __slots__ = ("_disk", "_generation", "_inode", "_path", "_read_only")

    def __init__(self, disk: "SimulatedDisk", path: str, inode: Inode, *, read_only: bool) -> None:
        self._disk = disk
        self._path = path
        self._inode: Inode | None = inode
        self._read_only = read_only
        self._generation = disk.generation

    def _opened(self) -> Inode:
        if self._inode is None or self._generation != self._disk.generation:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        return self._inode

    @property
    def path(self) -> str:
        return self._path

    def size_bytes(self) -> int:
        return len(self._opened().content)

    def pread(self, size_bytes: int, position: int) -> bytes:
        inode = self._opened()
        self._disk.count("read", self._path)
        return bytes(memoryview(inode.content)[position : position + size_bytes])

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        inode = self._opened()
        if self._read_only:
            raise OSError(errno.EBADF, "file was opened read-only", self._path)
        data = b"".join(bytes(buffer) for buffer in buffers)
        try:
            self._disk.count("write", self._path)
        except OSError:
            inode.change(Change(position, data[: len(data) // 2]))
            raise
        room_bytes = self._disk.room_bytes()
        growth_bytes = position + len(data) - len(inode.content)
        if growth_bytes > room_bytes:
            fitting = max(0, len(data) - (growth_bytes - room_bytes))
            inode.change(Change(position, data[:fitting]))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        inode.change(Change(position, data))
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        inode = self._opened()
        self._disk.count("truncate", self._path)
        inode.change(Change(size_bytes, None))

    def sync(self) -> None:
        inode = self._opened()
        self._disk.count("sync", self._path)
        inode.sync()
        self._disk.commit_names()

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self._inode = None


class SimulatedDisk:
    """See the module.

    Args of the constructor:
        schedule: given each `sync_later` as a function that performs it; the simulator's loop calls it when it likes.
            Without one they wait until `complete_syncs`.
        capacity_bytes: all files together may not be larger; None is unlimited.
    """

    def __init__(
        self,
        *,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        capacity_bytes: int | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.operations: Counter[str] = Counter()
        self.generation = 0
        self.is_observed = False
        """True while an invariant reads the disk: no faults, and no operations counted."""
        self.before_rename: Callable[[str, str], object] = lambda source, target: None
        """Called with both paths of a renaming that will succeed."""
        self._waiting_syncs: deque[Callable[[], None]] = deque()
        self._schedule = schedule or self._waiting_syncs.append
        self._names = _NameSpace()
        self._durable_names = _NameSpace()
        self._name_changes: list[_NameSpaceChange] = []
        self._faults: list[_Fault] = []
        self._broken: dict[str, None] = {}
        self._locks: set[str] = set()

    # --- Disk

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimulatedFile:
        self.count("open", path)
        path = posixpath.normpath(path)
        inode = self._names.files.get(path)
        if inode is None and read_only and path in self._names.directories:
            inode = Inode()  # a directory: all that can be done with it is to sync it
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._require_directory(posixpath.dirname(path) or ".")
            inode = Inode()
            self._change_names(lambda names, inode=inode: names.files.__setitem__(path, inode))  # type: ignore[misc]
        return SimulatedFile(self, path, inode, read_only=read_only)

    def exists(self, path: str) -> bool:
        path = posixpath.normpath(path)
        return path in self._names.files or path in self._names.directories

    def size_bytes(self, path: str) -> int:
        return len(self._inode(path).content)

    def space(self, path: str) -> DiskSpace:
        self._require_directory(posixpath.normpath(path))
        return DiskSpace(self.capacity_bytes or 1 << 40, self.room_bytes())

    def list_directory(self, path: str) -> list[str]:
        self.count("list", path)
        path = posixpath.normpath(path)
        self._require_directory(path)
        return sorted(
            posixpath.basename(entry)
            for entry in (*self._names.files, *self._names.directories)
            if entry != path and (posixpath.dirname(entry) or ".") == path
        )

    def make_directory(self, path: str) -> None:
        self.count("make_directory", path)
        path = posixpath.normpath(path)
        while path not in self._names.directories:
            made = path
            self._change_names(lambda names, made=made: names.directories.add(made))  # type: ignore[misc]
            path = posixpath.dirname(path) or "."

    def rename(self, source: str, target: str) -> None:
        self.count("rename", source)
        source, target = posixpath.normpath(source), posixpath.normpath(target)
        if not self.exists(source):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.before_rename(source, target)
        self._change_names(lambda names: _rename(names, source, target))

    def remove(self, path: str) -> None:
        self.count("remove", path)
        path = posixpath.normpath(path)
        self._inode(path)
        self._change_names(lambda names: names.files.pop(path, None))

    def remove_tree(self, path: str) -> None:
        self.count("remove", path)
        path = posixpath.normpath(path)
        self._require_directory(path)
        self._change_names(lambda names: _remove_tree(names, path))

    def sync_directory(self, path: str) -> None:
        self.count("sync_directory", path)
        self._require_directory(posixpath.normpath(path))
        self.commit_names()

    def lock(self, path: str) -> None:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        self.open(path, create=True).close()
        self._locks.add(path)

    def unlock(self, path: str) -> None:
        self._locks.discard(path)

    def sync_all(self, files: Sequence[File]) -> None:
        for file in files:
            file.sync()

    def sync_later(self, files: Sequence[File], done: Callable[[OSError | None], None]) -> None:
        generation = self.generation

        def perform() -> None:
            if generation == self.generation:
                done(sync_in_turn(files))

        self._schedule(perform)

    # --- called by tests and the simulator

    def schedule_syncs(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        """Pass each further `sync_later` to ``schedule``, as to the constructor."""
        self._schedule = schedule

    def complete_syncs(self) -> int:
        """Perform every waiting `sync_later`, also those that their completions start; return how many."""
        count = 0
        while self._waiting_syncs:
            self._waiting_syncs.popleft()()
            count += 1
        return count

    def crash(self, random: Random | None = None, *, flips_bits: bool = False) -> None:
        """Cut the power: lose unsynced data, all of it or (with ``random``) a part; close files, drop locks.

        With ``flips_bits`` a bit of written data that was neither synced nor lost may flip.
        """
        kept = 0 if random is None else random.randrange(len(self._name_changes) + 1)
        for change in self._name_changes[:kept]:
            change(self._durable_names)
        self._name_changes.clear()
        self._names = self._durable_names.copy()
        seen: set[int] = set()
        for path in sorted(self._names.files):
            inode = self._names.files[path]
            if id(inode) not in seen:
                seen.add(id(inode))
                inode.crash(random, flips_bits=flips_bits)
        self.kill()

    def kill(self) -> None:
        """End the process as kill -9 does: written data stays, its files are closed and its locks dropped."""
        self.generation += 1
        self._locks.clear()
        self._waiting_syncs.clear()

    def fail_next(self, operation: str, error_number: int, *, path_part: str = "", skip: int = 0) -> None:
        """Make one operation raise OSError(``error_number``): the first matching one after ``skip`` others.

        Args:
            operation: "open", "read", "write", "truncate", "sync", "sync_directory", "rename", "remove", "list" or
                "make_directory".
            error_number: e.g. ``errno.EIO``.
            path_part: substring that the path must contain.
            skip: how many matching operations still succeed.
        """
        self._faults.append(_Fault(operation, error_number, path_part, skip))

    def break_directory(self, path: str) -> None:
        """Let everything below ``path`` fail with EIO, until `repair_directories`; its contents stay."""
        self._broken[path] = None

    def repair_directories(self) -> None:
        self._broken.clear()

    @property
    def broken_directories(self) -> list[str]:
        return list(self._broken)

    def clear_faults(self) -> None:
        """Remove the faults of `fail_next` that have not struck yet."""
        self._faults.clear()

    def corrupt(self, path: str, position: int, data: bytes) -> None:
        """Overwrite bytes durably, without any program's knowledge."""
        inode = self._inode(path)
        Change(position, data).apply(inode.content)
        inode.durable = bytes(inode.content)
        inode.changes.clear()

    def contents(self, path: str) -> bytes:
        """Return the contents that a reader would see now."""
        return bytes(self._inode(path).content)

    def durable_contents(self, path: str) -> bytes:
        """Return the contents after a power cut that loses all unsynced data."""
        return self._inode(path).durable

    def survives_power_cut(self, path: str, size_bytes: int) -> bool:
        """Return whether the first ``size_bytes`` of the file are synced as they are, and so is its name."""
        is_name_synced = self._durable_names.files.get(posixpath.normpath(path)) is self._inode(path)
        return is_name_synced and self.is_content_synced(path, size_bytes)

    def is_content_synced(self, path: str, size_bytes: int) -> bool:
        """Return whether the first ``size_bytes`` of the file are synced as they are, under whatever name."""
        inode = self._inode(path)
        return inode.durable[:size_bytes] == inode.content[:size_bytes]

    def paths(self) -> list[str]:
        """Every file's path, sorted."""
        return sorted(self._names.files)

    # --- shared with SimulatedFile

    def count(self, operation: str, path: str) -> None:
        """Count an operation, and raise if a fault waits for it."""
        if self.is_observed:
            return
        self.operations[operation] += 1
        for broken in self._broken:
            if path == broken or path.startswith(f"{broken}/"):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path:
                if fault.skip:
                    fault.skip -= 1
                    continue
                self._faults.remove(fault)
                raise OSError(fault.error_number, os.strerror(fault.error_number), path)

    @property
    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in set(self._names.files.values()))

    def room_bytes(self) -> int:
        return 1 << 62 if self.capacity_bytes is None else self.capacity_bytes - self.used_bytes

    def commit_names(self) -> None:
        for change in self._name_changes:
            change(self._durable_names)
        self._name_changes.clear()

    def _change_names(self, change: _NameSpaceChange) -> None:
        change(self._names)
        self._name_changes.append(change)

    def _inode(self, path: str) -> Inode:
        inode = self._names.files.get(posixpath.normpath(path))
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inode

    def _require_directory(self, path: str) -> None:
        if path not in self._names.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _rename(names: _NameSpace, source: str, target: str) -> None:
    if source in names.files:
        names.files[target] = names.files.pop(source)
        return
    inside = source + "/"
    for path in [path for path in names.files if path.startswith(inside)]:
        names.files[target + path[len(source) :]] = names.files.pop(path)
    for path in [path for path in names.directories if path == source or path.startswith(inside)]:
        names.directories.remove(path)
        names.directories.add(target + path[len(source) :])


def _remove_tree(names: _NameSpace, path: str) -> None:
    inside = path + "/"
    for name in [name for name in names.files if name.startswith(inside)]:
        del names.files[name]
    names.directories = {name for name in names.directories if name != path and not name.startswith(inside)}

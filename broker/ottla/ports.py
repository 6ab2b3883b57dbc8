"""The ports between the synchronous core and the world: `Clock`, `Disk`, `Network`, `Random`, `Background`, `Memory`.

Everything from `node` down does I/O only through these, so that the real runtime and the simulator can drive the same
objects. The core calls ports; the runtime calls the core (`receive`, `tick`, completions).
Nothing here blocks for long except `File.sync`, which is why the data path uses `Disk.sync_later`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.types import Endpoint, Uuid

Buffer: TypeAlias = bytes | bytearray | memoryview

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ConnectionId: TypeAlias = int
"""Names one connection within a node for as long as the node runs; never reused."""


class Clock(Protocol):
    """Two clocks: a monotonic one and the wall clock."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some fixed moment; never decreases."""

    def monotonic_ns(self) -> int:
        """Return the same clock in nanoseconds, to measure less than a millisecond."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC; may step forward or back."""


class Random(Protocol):
    """The only source of randomness."""

    def randrange(self, stop: int) -> int:
        """Return an integer, 0 <= n < ``stop``."""

    def uuid(self) -> Uuid:
        """Return a random (version 4) id that is none of Kafka's reserved ones and prints without a leading dash."""


class File(Protocol):
    """An open file. Every method may raise OSError; the caller turns it into a StorageError that names the file."""

    @property
    def path(self) -> str: ...

    def size_bytes(self) -> int: ...

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Return up to ``size_bytes`` from ``position``; fewer only at the end of the file."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of ``buffers`` in order at ``position``; return their total size in bytes."""

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Return once everything written is on stable storage (fsync). May take long."""

    def fileno(self) -> int:
        """Return the descriptor that `sendfile` reads from; -1 when this is not a file of the operating system."""

    def close(self) -> None: ...


class DiskSpace(NamedTuple):
    """The file system of a directory: its size, and the bytes that are free for this process."""

    total_bytes: int
    usable_bytes: int


class Disk(Protocol):
    """The file system below the node's log directories. Paths are strings as the configuration gives them."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file, for reading and writing unless ``read_only``; ``create`` creates it when it is missing.

        Raises:
            FileNotFoundError: it is missing and ``create`` is false.
        """

    def exists(self, path: str) -> bool: ...

    def size_bytes(self, path: str) -> int:
        """Return the size of the file at ``path`` without opening it.

        Raises:
            FileNotFoundError: it is missing.
        """

    def space(self, path: str) -> DiskSpace: ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in ``path``, sorted, so that every run sees the same order."""

    def make_directory(self, path: str) -> None:
        """Create ``path`` and its missing parents; no error when it exists."""

    def rename(self, source: str, target: str) -> None:
        """Replace ``target`` by ``source`` atomically."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make renames, creations and removals in ``path`` durable."""

    def lock(self, path: str) -> None:
        """Take an exclusive lock on the file at ``path`` for as long as this process lives.

        Raises:
            BlockingIOError: another process holds it.
        """

    def unlock(self, path: str) -> None:
        """Release the lock of `lock`; no error when it is not held."""

    def sync_all(self, files: Sequence[File]) -> None:
        """Return once ``files`` are on stable storage; sync many at a time, for a node that stops."""

    def sync_later(self, files: Sequence[File], done: Callable[[OSError | None], None]) -> None:
        """Sync ``files`` off the loop, then call ``done`` on the loop with None or the first error."""


def sync_in_turn(files: Sequence[File]) -> OSError | None:
    """Sync one after the other, as `Disk.sync_later` does; stop at the first error and return it."""
    try:
        for file in files:
            file.sync()
    except OSError as error:
        return error
    return None


class FileSlice:
    """``size_bytes`` of ``file`` from ``position``: record bytes that are sent from the disk without a copy."""

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """Return the bytes themselves, for readers other than sockets."""
        return self.file.pread(self.size_bytes, self.position)


Chunk: TypeAlias = Buffer | FileSlice
"""One piece of an outgoing frame."""


class Network(Protocol):
    """Connections, as the core sees them: numbered, in order, and already decrypted."""

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        """Send ``chunks`` in order, and queue bytes that the peer does not read yet; a closed connection drops them.

        Returns:
            Whether more may be sent. After False the caller waits for `Node.drained`; buffers in ``chunks`` belong to
            the network until then.
        """

    def close_connection(self, connection: ConnectionId, *, at_once: bool = False) -> None:
        """Send what is queued, then close; `Node.closed` is not called for it.

        ``at_once`` drops what is queued, and ends the connection so that the peer learns it also over a network that
        loses packets, or acknowledgements.
        """

    def pause_reading(self, connection: ConnectionId) -> None: ...

    def resume_reading(self, connection: ConnectionId) -> None: ...

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        """Stop accepting on ``listener`` for ``for_ms``; meanwhile connections wait in the socket's backlog."""

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        """Start to connect; `Node.connected` or `Node.closed` reports the result, never before this returns.

        A host name is resolved again for every connection, off the loop, and each of its addresses is tried.
        Nothing may be sent before `Node.connected`. `Node.closed` gets ``was_connection_refused`` when every address
        failed with "connection refused".
        """

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        """Learn the addresses of a host name, off the loop: `connect` uses them while no name server responds."""


class Background(Protocol):
    """Work off the loop: calls that release the GIL for most of their time (compression, checksums, reads, syncs)."""

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call ``work`` on another thread, then ``done`` on the loop with its result or the exception that it raised.

        ``done`` is never called before this returns, and exactly once. Work is started in the order of the calls, but
        several run at a time and may end in any order. ``work`` must not use state that the loop changes meanwhile.
        If no thread can be created, ``done`` gets the RuntimeError.
        """


class Task(Protocol[T_co]):
    """Work of `BackgroundTasks.start_task`; a node that stops ends it between any two instructions."""

    def advance(self, done: Callable[[T_co | Exception], None]) -> None:
        """Do the next step, then call ``done`` on the loop with its result or the exception that it raised.

        Called once at a time. ``done`` is never called before this returns, and exactly once. If the process dies, or
        none can be started, it gets a ShortageError.
        """

    def close(self) -> None:
        """End the task between two steps; every task must be closed."""


class BackgroundTasks(Background, Protocol):
    """Also runs long work in Python code, which on a thread would take the GIL from the loop."""

    def start_task(self, create: Callable[[], Iterator[T]]) -> Task[T]:
        """Return a task whose steps are those of the iterator that ``create`` returns, in another process.

        ``create`` must be picklable, with all that it refers to, and the results as well; a `Disk` arrives there as the
        same files, without `Disk.sync_later`. ``create`` is called at the first step.
        """


class MemoryUse(NamedTuple):
    """Unreclaimable memory of this process and those that share its limit, and that limit."""

    used_bytes: int
    limit_bytes: int


class Memory(Protocol):
    """The memory that this process may use, and the network's share of it by connection."""

    def use(self) -> MemoryUse | None:
        """Return the current use; None without a limit."""

    def release(self) -> None:
        """Return freed memory to the system."""

    def unsent_bytes(self, connection: ConnectionId) -> int:
        """Return how many unsent bytes of ``connection`` are in memory."""

    def abort_connection(self, connection: ConnectionId) -> None:
        """Close a connection at once and drop its queued bytes; `Node.closed` reports that."""


class KeyFetch(NamedTuple):
    """The URL of an issuer's keys, ``https:`` or ``file:``, and the settings to fetch them."""

    url: str
    allows_private_addresses: bool
    connect_timeout_ms: int
    read_timeout_ms: int


class KeySource(Protocol):
    """Fetches the public keys that verify tokens."""

    def fetch_keys(self, fetch: KeyFetch, done: Callable[[bytes | str], None]) -> None:
        """Fetch off the loop, then call ``done`` on the loop with the bytes, or with the reason why there are none."""

"""`RequestMemory`: limit on the memory of incoming requests, over all connections of a node.

A frame acquires its bytes when its size is known, and releases them when it has been handled or its connection ends. A
frame for which there is no capacity waits: its connection is not read. Complete small frames hold no memory, they are
handled in the scratch buffer. Three shares of the limit keep one kind of client from starving the others:

=========  =======  ================================================================================================
share      of       for
=========  =======  ================================================================================================
large      1/2      frames above `RequestMemory.ordinary_bytes_max`, first come, first served
ordinary   1/4      the other frames, first come, first served; more, up to the limit, while no large frame waits
parked     1/4      bytes that were read along with a frame and cannot be used yet; when it is full, connections are
                    read one frame at a time, which parks no more bytes
=========  =======  ================================================================================================

So the longest wait is served first within its kind, small frames cannot starve large ones, and many large frames do not
delay ordinary clients. A frame that is larger than its share is admitted when it is the only large one: no frame ever
waits for capacity that cannot become free. Frames of at most half the limit never push the sum above the limit.

Source: KIP-72; SimpleMemoryPool of Apache Kafka 4.3, which has one share and no order.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

NO_LIMIT_BYTES = 2**63 - 1
_ORDINARY_BYTES_MAX = 2 * 1024 * 1024
"""A request of a producer at its default max.request.size (1 MiB) fits into a buffer of this size."""

WaiterT = TypeVar("WaiterT", bound=Hashable)


class RequestMemory(Generic[WaiterT]):
    """Counter of bytes with queues of waiters; the buffers themselves belong to the connections.

    Attributes:
        is_read_frame_by_frame: there is no capacity to park another read of ``read_bytes_max``.
        waits: number of frames that had to wait so far.

    Args of the constructor:
        limit_bytes: 1 <= limit.
        read_bytes_max: maximum of bytes that one read brings beyond the requested frame.
        on_wait: called when a waiter enters a queue.
        on_granted: called when a waiter has left its queue and holds the requested bytes.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        read_bytes_max: int,
        on_wait: Callable[[WaiterT], None],
        on_granted: Callable[[WaiterT], None],
    ) -> None:
        self.limit_bytes = limit_bytes
        self.ordinary_bytes_max = min(_ORDINARY_BYTES_MAX, limit_bytes // 16)
        self._large_share_bytes = limit_bytes // 2
        self._quarter_bytes = limit_bytes // 4
        self._read_bytes_max = read_bytes_max
        self._on_wait = on_wait
        self._on_granted = on_granted
        self._large_bytes = 0
        self._ordinary_bytes = 0
        self._parked_bytes = 0
        self._large_waiters: OrderedDict[WaiterT, int] = OrderedDict()
        self._ordinary_waiters: OrderedDict[WaiterT, int] = OrderedDict()
        self._is_granting = False
        self.waits = 0
        self.is_read_frame_by_frame = read_bytes_max > self._quarter_bytes

    @property
    def held_bytes(self) -> int:
        return self._large_bytes + self._ordinary_bytes + self._parked_bytes

    @property
    def waiter_count(self) -> int:
        return len(self._large_waiters) + len(self._ordinary_waiters)

    @property
    def is_awaited(self) -> bool:
        """Whether a frame waits."""
        return bool(self._large_waiters or self._ordinary_waiters)

    def acquire(self, waiter: WaiterT, size_bytes: int) -> bool:
        """Hold ``size_bytes`` for ``waiter``; after False it is in the queue until ``on_granted`` is called for it.

        A waiter waits for one thing at a time; `cancel` ends the wait.
        """
        waiters = self._waiters(size_bytes)
        if not waiters and self._has_capacity(size_bytes):
            self._add(size_bytes)
            return True
        waiters[waiter] = size_bytes
        self.waits += 1
        self._on_wait(waiter)
        return False

    def release(self, size_bytes: int) -> None:
        """Release bytes that `acquire` or ``on_granted`` granted; waiters may be granted theirs before this returns."""
        self._add(-size_bytes)
        self._grant()

    def park(self, size_bytes: int) -> None:
        """Count bytes that have been read already and cannot be used yet."""
        self._parked_bytes += size_bytes
        self.is_read_frame_by_frame = self._parked_bytes + self._read_bytes_max > self._quarter_bytes

    def unpark(self, size_bytes: int) -> None:
        """Release bytes that `park` counted; waiters may be granted theirs before this returns."""
        self._parked_bytes -= size_bytes
        self.is_read_frame_by_frame = self._parked_bytes + self._read_bytes_max > self._quarter_bytes
        self._grant()

    def cancel(self, waiter: WaiterT) -> None:
        """Remove ``waiter`` from its queue; no error if it is in none."""
        self._large_waiters.pop(waiter, None)
        self._ordinary_waiters.pop(waiter, None)
        self._grant()

    def _waiters(self, size_bytes: int) -> OrderedDict[WaiterT, int]:
        return self._ordinary_waiters if size_bytes <= self.ordinary_bytes_max else self._large_waiters

    def _add(self, size_bytes: int) -> None:
        if abs(size_bytes) <= self.ordinary_bytes_max:
            self._ordinary_bytes += size_bytes
        else:
            self._large_bytes += size_bytes

    def _has_capacity(self, size_bytes: int) -> bool:
        fits = self.held_bytes + size_bytes <= self.limit_bytes
        if size_bytes <= self.ordinary_bytes_max:
            return self._ordinary_bytes + size_bytes <= self._quarter_bytes or (fits and not self._large_waiters)
        if self._large_bytes == 0 and self._ordinary_bytes <= self._quarter_bytes:
            # Parked bytes are at most a quarter, too: a frame of up to half the limit still fits below it.
            return True
        return fits and self._large_bytes + size_bytes <= self._large_share_bytes

    def _grant(self) -> None:
        """Serve both queues as far as there is capacity, including bytes that are released meanwhile."""
        if self._is_granting or not (self._large_waiters or self._ordinary_waiters):
            return
        self._is_granting = True
        while granted := self._next_granted():
            waiter, size_bytes = granted
            self._add(size_bytes)
            self._on_granted(waiter)
        self._is_granting = False

    def _next_granted(self) -> tuple[WaiterT, int] | None:
        for waiters in (self._large_waiters, self._ordinary_waiters):
            if waiters and self._has_capacity(next(iter(waiters.values()))):
                return waiters.popitem(last=False)
        return None

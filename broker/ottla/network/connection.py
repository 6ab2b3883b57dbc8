"""`Connection`: splits the bytes of one connection into frames, and provides the buffers to read them into.

A frame is an int32 size and as many bytes. The driver reads into `receive_buffer` and reports the size to `received`;
complete frames are passed to ``on_frame`` as views that are valid only during that call, so that records go from the
socket's buffer to the log without a copy. While the pipeline blocks the connection, reading is paused and later frames
stay in the buffer.

Bytes that stay (a partial frame, bytes behind a request in progress) are counted in the node's `RequestMemory`; a frame
for which there is no capacity waits, and the connection is not read meanwhile.
"""

import struct
from collections.abc import Callable
from typing import Final, Protocol

from ottla.errors import ProtocolError
from ottla.handlers.api import ConnectionInfo
from ottla.network.buffer_pool import BufferPool, allocated_bytes
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.request_memory import RequestMemory
from ottla.network.response_queue import ResponseQueue
from ottla.ports import Buffer

SIZE_BYTES = 4
_SIZE = struct.Struct(">i")
_SMALLEST_FRAME_BYTES = 4
"""A response with nothing but its correlation id."""
_SLICE_FRAMES_MAX = 32
"""In one slice, unless the clock ends it before: about a quarter of a millisecond for the cheapest requests."""
_HEADER_FIRST_BYTES = 64 * 1024
"""After a frame of this size, the next one's size is read separately, so that its bytes go into their own buffer."""


_NO_HEADER: Final = memoryview(b"")
"""Most connections never read a size separately."""


class Guard(Protocol):
    """Checks a connection's frames before they are served."""

    def stops(self, frame: memoryview) -> bool:
        """Return whether ``frame`` must not be served; the guard has then handled it."""


class _ClosedGuard:
    """The guard of a connection that has ended."""

    def stops(self, frame: memoryview) -> bool:
        return True


_CLOSED_GUARD: Final = _ClosedGuard()


class Connection:
    """The framing state of one connection.

    ``is_blocked`` is set while no further request may be handled. The reasons: ``is_full`` if the peer does not read
    its responses, ``is_throttled`` if the client is above a quota, ``awaits_slice`` if other connections are served
    before the next received frame. ``is_waiting`` is true while a frame waits for memory; the driver must not read
    then. ``responses`` are pending; they are abandoned when the connection is closed. ``guard`` is None if every frame
    may be served.
    """

    __slots__ = (
        "_body",
        "_body_filled",
        "_carry",
        "_header",
        "_header_filled",
        "_header_first",
        "_held_bytes",
        "_kept_body",
        "_kept_bytes",
        "_memory",
        "_on_frame",
        "_parked_bytes",
        "_pool",
        "_scheduler",
        "_scratch",
        "_waiting",
        "awaits_slice",
        "frame_size_bytes_max",
        "frames_started",
        "guard",
        "info",
        "is_blocked",
        "is_closed",
        "is_full",
        "is_throttled",
        "is_waiting",
        "last_active_ms",
        "responses",
    )

    def __init__(
        self,
        info: ConnectionInfo,
        *,
        scratch: memoryview,
        pool: BufferPool,
        memory: "RequestMemory[Connection]",
        frame_size_bytes_max: int,
        on_frame: "Callable[[Connection, memoryview], None]",
        scheduler: FairScheduler,
        now_ms: int,
    ) -> None:
        self.info = info
        self.guard: Guard | None = None
        self.frame_size_bytes_max = frame_size_bytes_max
        self.awaits_slice = False
        self.is_blocked = False
        self.is_closed = False
        self.is_full = False
        self.is_throttled = False
        self.is_waiting = False
        self.frames_started = 0
        self.last_active_ms = now_ms
        self._scratch = scratch
        self._pool = pool
        self._memory = memory
        self._held_bytes = 0
        self._kept_body: memoryview | None = None
        self._kept_bytes = 0
        self._parked_bytes = 0
        self._waiting = (0, 0, False)
        self._on_frame = on_frame
        self._scheduler = scheduler
        self.responses: ResponseQueue | None = None
        self._carry: bytes | memoryview = b""
        self._body: memoryview | None = None
        self._body_filled = 0
        self._header_first = False
        self._header = _NO_HEADER
        self._header_filled = 0

    @property
    def kept_bytes(self) -> int:
        """Number of received bytes that are kept for later."""
        return self._body_filled if self._body is not None else len(self._carry)

    @property
    def held_bytes(self) -> int:
        """Number of bytes that this connection's incoming requests hold in the node's `RequestMemory`."""
        return self._held_bytes + self._parked_bytes

    @property
    def awaits_service(self) -> bool:
        """Whether it waits for a slice, a quota or memory, and no response is pending."""
        return (self.awaits_slice or self.is_throttled or self.is_waiting) and not self.is_full and not self.responses

    def is_bounded_by(self, memory: "RequestMemory[Connection]") -> bool:
        return self._memory is memory

    def move_to(self, memory: "RequestMemory[Connection]", *, frame_size_bytes_max: int) -> None:
        """Count later frames in ``memory``, with another size limit; call it while a frame is handled."""
        assert not self.is_waiting
        self._unpark()
        self._release_held()
        self._memory = memory
        self.frame_size_bytes_max = frame_size_bytes_max

    def receive_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty. Valid until the next call on any of the connections."""
        if self._body is not None:
            return self._body[self._body_filled :]
        if self._header_first:
            return self._header[self._header_filled :]
        if self._carry or self._memory.is_read_frame_by_frame:
            return self._rest_of_scratch()
        return self._scratch

    def _rest_of_scratch(self) -> memoryview:
        """Return the scratch buffer after the carried-over bytes; only to the frame's end while memory is short."""
        carry = self._carry
        self._scratch[: len(carry)] = carry
        if not self._memory.is_read_frame_by_frame:
            return self._scratch[len(carry) :]
        return self._scratch[len(carry) : self._held_bytes or SIZE_BYTES]

    def received(self, size_bytes: int) -> bool:
        """Process ``size_bytes`` that were read into `receive_buffer`; return whether a frame is partially received.

        Raises:
            ProtocolError: a frame's size is negative or above the limit; the connection must be closed.
        """
        if self._body is not None:
            self._body_filled += size_bytes
            if self._body_filled == len(self._body):
                self._complete_body()
        elif self._header_first:
            self._header_filled += size_bytes
            if self._header_filled == SIZE_BYTES:
                self._header_filled = 0
                self._header_first = False
                size = self._checked_size(self._header, 0)
                self._keep_partial(self._header, size, is_small=self._fits_scratch(size) and size < _HEADER_FIRST_BYTES)
        else:
            if self._carry:
                size_bytes += len(self._carry)
                if size_bytes < self._held_bytes:
                    self._carry = bytes(self._scratch[:size_bytes])
                    return True
                self._drop_carry()
            self._take_frames(self._scratch, size_bytes, is_own_slice=False)
        return self._held_bytes > 0

    def resume(self) -> None:
        """Handle frames that arrived while the connection was blocked; raises as `received` does."""
        if self._parked_bytes and not self.is_waiting:
            carry = self._carry
            if not isinstance(carry, memoryview):
                carry = memoryview(bytearray(carry))
            self._drop_carry()
            self._take_frames(carry, len(carry), is_own_slice=True)

    def keep_frame(self, frame: memoryview) -> memoryview:
        """Return ``frame``, the one that is being handled, as a view that is valid until `release_frame`.

        A frame with a buffer of its own stays there, with the memory counted for it; one in the node's scratch buffer
        is copied, which takes some microseconds.
        """
        assert self._kept_body is None, "one frame at a time"
        if self._body is frame:
            self._kept_body, self._kept_bytes = frame, self._held_bytes
            self._held_bytes = 0
            return frame
        self._memory.park(len(frame))
        self._kept_body, self._kept_bytes = memoryview(bytes(frame)), len(frame)
        return self._kept_body

    def release_frame(self) -> None:
        """Release the frame of `keep_frame`; no error if there is none."""
        body, self._kept_body = self._kept_body, None
        size, self._kept_bytes = self._kept_bytes, 0
        if body is None:
            return
        if isinstance(body.obj, bytes):
            self._memory.unpark(size)
        else:
            self._memory.release(size)
            if body is not self._body:
                self._pool.release(body)

    def memory_granted(self) -> None:
        """Continue with the frame that waited for memory: its bytes may be read."""
        self.is_waiting = False
        size, self._held_bytes, is_small = self._waiting
        if not is_small:
            self._start_body(size, memoryview(self._carry)[SIZE_BYTES:])
            self._carry = b""
        self._unpark()

    def close(self) -> None:
        self.is_closed = True
        # The SASL state refers to its connection. Without this cycle, thousands of short connections leave nothing to
        # the garbage collector, which would block the loop.
        self.guard, self.info.authenticator = _CLOSED_GUARD, None
        if self.responses is not None:
            self.responses.abandon()
        if self.is_waiting:
            self.is_waiting = False
            self._memory.cancel(self)
        self._drop_carry()
        self._body = None
        self._release_held()
        if self._kept_body is not None and not isinstance(self._kept_body.obj, bytes):
            # Work off the loop may still read the buffer: it must not be reused.
            self._memory.release(self._kept_bytes)
            self._kept_body, self._kept_bytes = None, 0
        self.release_frame()

    def _take_frames(self, buffer: memoryview, end: int, *, is_own_slice: bool) -> None:
        """Handle the complete frames in ``buffer[:end]``; keep or start a partial one at its end.

        Frames are handled until the slice is over; ``awaits_slice`` is set if more are left.
        """
        position = frames = until_ns = 0
        scheduler = self._scheduler
        while end - position >= SIZE_BYTES and not self.is_closed:
            size = self._checked_size(buffer, position)
            stop = position + SIZE_BYTES + size
            if self.is_blocked:
                break
            if stop > end:
                self._keep_partial(buffer[position:end], size, is_small=self._fits_scratch(size))
                return
            if frames:
                if frames == _SLICE_FRAMES_MAX or scheduler.is_over(until_ns):
                    self.awaits_slice = self.is_blocked = True
                    break
            elif stop < end:
                # Only here: the clock of a single frame would be read for nothing.
                until_ns = scheduler.slice_end_ns()
            self._on_frame(self, buffer[position + SIZE_BYTES : stop])
            position = stop
            frames += 1
        if position < end and not self.is_closed:
            rest = buffer[position:end]
            if is_own_slice and 2 * len(rest) > len(rest.obj):  # type: ignore[arg-type]
                # Copying the rest in every slice would cost more than the slice. The whole buffer stays, and counts.
                self._park(rest, len(rest.obj))  # type: ignore[arg-type]
            else:
                self._park(bytes(rest), len(rest))

    def _fits_scratch(self, size: int) -> bool:
        return SIZE_BYTES + size <= len(self._scratch) // 2

    def _keep_partial(self, part: memoryview, size: int, *, is_small: bool) -> None:
        """Keep the first ``part`` of a frame of ``size`` bytes: carried over if small, else in its own buffer."""
        self.frames_started += 1
        cost = SIZE_BYTES + size if is_small else allocated_bytes(size)
        if not self._memory.acquire(self, cost):
            self.is_waiting = True
            self._waiting = (size, cost, is_small)
            self._park(bytes(part), len(part))
            return
        self._held_bytes = cost
        if is_small:
            self._carry = bytes(part)
        else:
            self._start_body(size, part[SIZE_BYTES:])

    def _checked_size(self, buffer: memoryview, position: int) -> int:
        size: int = _SIZE.unpack_from(buffer, position)[0]
        if _SMALLEST_FRAME_BYTES <= size <= self.frame_size_bytes_max:
            return size
        limit_key = "socket.request.max.bytes" if self.guard is None else "sasl.server.max.receive.size"
        raise ProtocolError(_explain_size(size, self.frame_size_bytes_max, limit_key))

    def _release_held(self) -> None:
        held, self._held_bytes = self._held_bytes, 0
        if held:
            self._memory.release(held)

    def _park(self, part: bytes | memoryview, kept_bytes: int) -> None:
        """Keep ``part`` for later; ``kept_bytes`` are in memory because of it."""
        self._carry = part
        self._parked_bytes = kept_bytes
        self._memory.park(kept_bytes)

    def _unpark(self) -> None:
        parked, self._parked_bytes = self._parked_bytes, 0
        if parked:
            self._memory.unpark(parked)

    def _drop_carry(self) -> None:
        self._carry = b""
        self._unpark()
        self._release_held()

    def _start_body(self, size: int, part: Buffer) -> None:
        self._body = self._pool.acquire(size)
        self._body_filled = len(part)
        self._body[: len(part)] = part

    def _complete_body(self) -> None:
        body = self._body
        assert body is not None
        self._header_first = len(body) >= _HEADER_FIRST_BYTES
        if self._header_first and self._header is _NO_HEADER:
            self._header = memoryview(bytearray(SIZE_BYTES))
        self._on_frame(self, body)
        self._body = None
        if self._kept_body is body:
            return
        self._release_held()
        if not self.is_closed:
            self._pool.release(body)


def _explain_size(size: int, limit: int, limit_key: str) -> str:
    """Return an explanation of an invalid size, which mostly is the first four bytes of another protocol."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first[:2] == b"\x16\x03":
        return "this looks like a TLS hello on a plaintext listener; set security.protocol=PLAINTEXT in the client"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD"):
        return "this looks like HTTP on a Kafka listener; the admin pages are on another port"
    if size < _SMALLEST_FRAME_BYTES:
        return f"a frame claims a size of {size} bytes, too few for any message"
    return f"a frame claims {size} bytes, more than {limit_key}={limit}"

"""One connection, bytes to frames: where to put the next bytes, and which frames they complete.

A frame is an int32 size and as many bytes. The driver asks `receive_buffer` where to read to and tells `received` how
much came; complete frames are handed to ``on_frame`` as views that are valid only during that call, so that records go
from the socket's buffer to the log without a copy. One request is in hand at a time, as in Kafka: while one waits,
reading is paused and later frames stay where they are.
"""

from collections.abc import Callable

from ottla.errors import ProtocolError
from ottla.handlers.api import ConnectionInfo
from ottla.server.buffer_pool import BufferPool

SIZE_BYTES = 4
_SMALLEST_FRAME_BYTES = 4
"""A response with nothing but its correlation id."""
_HEADER_FIRST_BYTES = 64 * 1024
"""After a frame of this size the next one's size is read alone, so that its bytes land where they stay."""


class Connection:
    """The framing state of one connection.

    ``is_blocked`` is set by the pipeline while a request is in hand or its answer is not on its way.
    """

    __slots__ = (
        "_body",
        "_body_filled",
        "_carry",
        "_header",
        "_header_filled",
        "_header_first",
        "_on_frame",
        "_pool",
        "_scratch",
        "frame_size_bytes_max",
        "info",
        "is_blocked",
        "is_closed",
        "last_active_ms",
    )

    def __init__(
        self,
        info: ConnectionInfo,
        *,
        scratch: memoryview,
        pool: BufferPool,
        frame_size_bytes_max: int,
        on_frame: "Callable[[Connection, memoryview], None]",
        now_ms: int,
    ) -> None:
        self.info = info
        self.frame_size_bytes_max = frame_size_bytes_max
        self.is_blocked = False
        self.is_closed = False
        self.last_active_ms = now_ms
        self._scratch = scratch
        self._pool = pool
        self._on_frame = on_frame
        self._carry = b""
        self._body: memoryview | None = None
        self._body_filled = 0
        self._header_first = False
        self._header = memoryview(bytearray(SIZE_BYTES))
        self._header_filled = 0

    def receive_buffer(self) -> memoryview:
        """Return where the next bytes go; never empty. Valid until the next call on any connection of the node."""
        if self._body is not None:
            return self._body[self._body_filled :]
        if self._header_first:
            return self._header[self._header_filled :]
        if self._carry:
            self._scratch[: len(self._carry)] = self._carry
            return self._scratch[len(self._carry) :]
        return self._scratch

    def received(self, size_bytes: int) -> None:
        """Take in the ``size_bytes`` that were put into `receive_buffer`'s view.

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
                self._start_body(self._checked_size(self._header, 0))
        else:
            size_bytes += len(self._carry)
            self._carry = b""
            self._take_frames(self._scratch, size_bytes)

    def resume(self) -> None:
        """Handle frames that arrived while the connection was blocked; raises as `received` does."""
        if self._carry and self._body is None:
            carry, self._carry = memoryview(bytearray(self._carry)), b""
            self._take_frames(carry, len(carry))

    def close(self) -> None:
        self.is_closed = True
        self._carry = b""
        if self._body is not None:
            self._body = None

    def _take_frames(self, buffer: memoryview, end: int) -> None:
        """Handle the whole frames in ``buffer[:end]``; keep or start the one that is cut off."""
        position = 0
        while end - position >= SIZE_BYTES and not self.is_closed:
            size = self._checked_size(buffer, position)
            stop = position + SIZE_BYTES + size
            if self.is_blocked:
                break
            if stop > end:
                if stop - position > len(self._scratch) // 2:
                    self._start_body(size)
                    assert self._body is not None
                    self._body_filled = end - position - SIZE_BYTES
                    self._body[: self._body_filled] = buffer[position + SIZE_BYTES : end]
                    return
                break
            self._on_frame(self, buffer[position + SIZE_BYTES : stop])
            position = stop
        if position < end and not self.is_closed:
            self._carry = bytes(buffer[position:end])

    def _checked_size(self, buffer: memoryview, position: int) -> int:
        size = int.from_bytes(buffer[position : position + SIZE_BYTES], "big", signed=True)
        if _SMALLEST_FRAME_BYTES <= size <= self.frame_size_bytes_max:
            return size
        raise ProtocolError(_explain_size(size, self.frame_size_bytes_max))

    def _start_body(self, size: int) -> None:
        self._body = self._pool.take(size)
        self._body_filled = 0

    def _complete_body(self) -> None:
        body, self._body = self._body, None
        assert body is not None
        self._header_first = len(body) >= _HEADER_FIRST_BYTES
        self._on_frame(self, body)
        self._pool.give_back(body)


def _explain_size(size: int, limit: int) -> str:
    """Say what a wrong size probably is: most wrong sizes are another protocol's first four bytes."""
    first = (size & 0xFFFFFFFF).to_bytes(4, "big")
    if first[:2] == b"\x16\x03":
        return "this looks like a TLS hello on a plaintext listener; set security.protocol=PLAINTEXT in the client"
    if first in (b"GET ", b"POST", b"PUT ", b"HEAD"):
        return "this looks like HTTP on a Kafka listener; the admin pages are on another port"
    if size < _SMALLEST_FRAME_BYTES:
        return f"a frame claims a size of {size} bytes, too few for any message"
    return f"a frame claims {size} bytes, more than socket.request.max.bytes={limit}"

"""Frames that peers send: each ends up in memory of its own, so that records decoded from it may be kept.

A frame is an int32 size and as many bytes. Small ones are copied out of the client's scratch buffer; a large one is
read straight into its own. `FrameReader` gives each frame away: a `memoryview` on its buffer, and every view that is
taken of it, stay valid for as long as somebody holds them.
"""

from ottla.errors import ProtocolError

SIZE_BYTES = 4
_SMALLEST_FRAME_BYTES = 4
"""A response with nothing but its correlation id."""


class FrameReader:
    """The bytes of one connection, in; its frames, out. ``scratch`` is shared by all connections of a client."""

    __slots__ = ("_body", "_body_filled", "_carry", "_frame_size_bytes_max", "_scratch")

    def __init__(self, scratch: memoryview, frame_size_bytes_max: int) -> None:
        self._scratch = scratch
        self._frame_size_bytes_max = frame_size_bytes_max
        self._carry = b""
        self._body: memoryview | None = None
        self._body_filled = 0

    def receive_buffer(self) -> memoryview:
        """Return where the next bytes go; never empty. Valid until the next call on any reader of the client."""
        if self._body is not None:
            return self._body[self._body_filled :]
        if self._carry:
            self._scratch[: len(self._carry)] = self._carry
            return self._scratch[len(self._carry) :]
        return self._scratch

    def received(self, size_bytes: int) -> list[memoryview]:
        """Take in the ``size_bytes`` that were put into `receive_buffer`'s view; return the frames they complete.

        Raises:
            ProtocolError: a frame's size is negative or above the limit; the connection must be closed.
        """
        if self._body is None:
            size_bytes += len(self._carry)
            self._carry = b""
            return self._cut(size_bytes)
        self._body_filled += size_bytes
        if self._body_filled < len(self._body):
            return []
        frame, self._body = self._body, None
        return [frame]

    def _cut(self, end: int) -> list[memoryview]:
        """Take the whole frames out of the scratch buffer; keep or start the one that is cut off."""
        frames: list[memoryview] = []
        position = 0
        while end - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            size = int.from_bytes(self._scratch[position:start], "big", signed=True)
            if not _SMALLEST_FRAME_BYTES <= size <= self._frame_size_bytes_max:
                raise ProtocolError(f"a frame claims {size} bytes; it may have up to {self._frame_size_bytes_max}")
            stop = start + size
            if stop > end:
                if stop - position > len(self._scratch) // 2:
                    self._body = memoryview(bytearray(size))
                    self._body_filled = end - start
                    self._body[: self._body_filled] = self._scratch[start:end]
                    return frames
                break
            frames.append(memoryview(bytearray(self._scratch[start:stop])))
            position = stop
        self._carry = bytes(self._scratch[position:end])
        return frames

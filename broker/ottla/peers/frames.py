"""`FrameReader`: splits the bytes of peers into frames, each in memory of its own, so that records may be kept.

A frame is an int32 size and as many bytes. Small ones are copied from the client's scratch buffer; a large one is read
directly into its own buffer. The caller owns each frame: its `memoryview`, and every view of it, stays valid for as
long as it is referenced.
"""

from ottla.errors import ProtocolError

SIZE_BYTES = 4
_SMALLEST_FRAME_BYTES = 4
"""A response with nothing but its correlation id."""


class FrameReader:
    """Reader of one connection's frames; ``scratch`` is shared by all connections of a client."""

    __slots__ = ("_body", "_body_filled", "_carry", "_frame_size_bytes_max", "_scratch")

    def __init__(self, scratch: memoryview, frame_size_bytes_max: int) -> None:
        self._scratch = scratch
        self._frame_size_bytes_max = frame_size_bytes_max
        self._carry = b""
        self._body: memoryview | None = None
        self._body_filled = 0

    def receive_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty. Valid until the next call on any reader of the client."""
        if self._body is not None:
            return self._body[self._body_filled :]
        if self._carry:
            self._scratch[: len(self._carry)] = self._carry
            return self._scratch[len(self._carry) :]
        return self._scratch

    def received(self, size_bytes: int) -> list[memoryview]:
        """Process ``size_bytes`` that were read into `receive_buffer`; return the frames that they complete.

        Raises:
            ProtocolError: a frame's size is negative or above the limit; the connection must be closed.
        """
        if self._body is None:
            size_bytes += len(self._carry)
            self._carry = b""
            return self._split_frames(size_bytes)
        self._body_filled += size_bytes
        if self._body_filled < len(self._body):
            return []
        frame, self._body = self._body, None
        return [frame]

    def _split_frames(self, end: int) -> list[memoryview]:
        """Copy the complete frames from the scratch buffer; keep or start a partial one at its end."""
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

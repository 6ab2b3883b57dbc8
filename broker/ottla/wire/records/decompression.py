"""Readers of compressed records, which return pieces of bounded size.

A batch of a few KiB may hold hundreds of MiB. A reader therefore never returns more than requested, never buffers more
than ``buffer_bytes_max`` itself, and does a bounded amount of work in one `read`, however many empty members or blocks
the bytes have. The accepted formats are those of Java's streams:

- gzip: members one after the other; other bytes after a member are ignored (GZIPInputStream).
- snappy: xerial's framing (a 16-byte header, then blocks with an int32 length), and one bare snappy block, which is
  what librdkafka wrote for a time (SnappyInputStream). A block is returned whole.
- lz4: one frame; bytes after it are ignored (Lz4BlockInputStream).
- zstd: frames one after the other (KIP-110).

The codecs' libraries are imported when first used, and release the interpreter's lock while they work.
"""

import sys
from importlib import import_module
from struct import Struct
from types import ModuleType
from typing import Final, Protocol

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_SIZE_BYTES: Final = 16
GZIP_WINDOW_BITS: Final = 31
"""zlib's value for a 32 KiB window, gzip header and trailer."""

_SNAPPY_EXPANSION_MAX: Final = 22
"""No snappy element decompresses 3 bytes to more than 64."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_INPUT_FIRST_BYTES: Final = 512
"""The first input of a member or frame: the decoder copies unused input, for each of very many small members."""
_INPUT_MAX_BYTES: Final = 64 * 1024
_STEPS_MAX: Final = 200
"""Members, frames or blocks in one `read`: between them Python code runs, with the interpreter's lock."""
_ZSTD_WINDOW_LOG_MIN: Final = 10
_ZSTD_WINDOW_LOG_MAX: Final = 27
"""128 MiB, the default limit of zstd's readers; Java's as well."""
_LZ4_PIECE_BYTES: Final = 256 * 1024

_INT32 = Struct(">i")


class BufferLimitError(Exception):
    """The codec needs a larger buffer than allowed: a zstd window, or a snappy block."""


class Decompressor(Protocol):
    """A reader of the compressed records of one batch, from the first byte to the last."""

    is_at_end: bool

    def read(self, size_bytes_max: int) -> bytes:
        """Return the next bytes, at most ``size_bytes_max`` (> 0) of them; perhaps none, also before the end.

        Only snappy returns more: one whole block of at most ``buffer_bytes_max``.

        Raises:
            CorruptRecordError: the bytes are not in the codec's format, or they end too early.
            BufferLimitError: see there.
        """


def _corrupt_data(codec: str, reason: object) -> CorruptRecordError:
    return CorruptRecordError(f"the {codec} data of the records cannot be decompressed: {reason}")


def _ends_early(codec: str) -> CorruptRecordError:
    return _corrupt_data(codec, "it ends before the codec's end mark")


class PlainReader:
    """Reader of uncompressed records."""

    def __init__(self, data: Buffer, buffer_bytes_max: int) -> None:
        self._view = memoryview(data)
        self._position = 0
        self.is_at_end = not self._view

    def read(self, size_bytes_max: int) -> bytes:
        piece = bytes(self._view[self._position : self._position + size_bytes_max])
        self._position += len(piece)
        self.is_at_end = self._position >= len(self._view)
        return piece


class GzipReader:
    """Reader of gzip members, each with its own decoder."""

    def __init__(self, data: Buffer, buffer_bytes_max: int) -> None:
        import zlib

        self._zlib = zlib
        self._input = _Input(data, "gzip")
        self._member = zlib.decompressobj(GZIP_WINDOW_BITS)
        self.is_at_end = False

    def read(self, size_bytes_max: int) -> bytes:
        for _ in range(_STEPS_MAX):
            try:
                piece = self._member.decompress(self._member.unconsumed_tail or self._input.take(), size_bytes_max)
            except self._zlib.error as error:
                raise _corrupt_data("gzip", error) from error
            if self._member.eof:
                self.is_at_end = not self._input.end_member(self._member.unused_data).startswith(_GZIP_MAGIC)
                if not self.is_at_end:
                    self._member = self._zlib.decompressobj(GZIP_WINDOW_BITS)
            if piece or self.is_at_end:
                return piece
        return b""


class ZstdReader:
    """Reader of zstd frames, each with its own decoder."""

    def __init__(self, data: Buffer, buffer_bytes_max: int) -> None:
        self._zstd = zstd_module()
        window_log = min(max(buffer_bytes_max.bit_length() - 1, _ZSTD_WINDOW_LOG_MIN), _ZSTD_WINDOW_LOG_MAX)
        self._may_need_more = window_log < _ZSTD_WINDOW_LOG_MAX
        parameter = self._zstd.DecompressionParameter.window_log_max
        self._options = {parameter: window_log} if self._may_need_more else None
        self._input = _Input(data, "zstd")
        self._frame = self._zstd.ZstdDecompressor(options=self._options)
        self.is_at_end = False

    def read(self, size_bytes_max: int) -> bytes:
        for _ in range(_STEPS_MAX):
            taken = self._input.take() if self._frame.needs_input else b""
            try:
                piece: bytes = self._frame.decompress(taken, max_length=size_bytes_max)
            except self._zstd.ZstdError as error:
                if self._may_need_more and "too much memory" in str(error):
                    raise BufferLimitError from error
                raise _corrupt_data("zstd", error) from error
            if self._frame.eof:
                self.is_at_end = not self._input.end_member(self._frame.unused_data)
                if not self.is_at_end:
                    self._frame = self._zstd.ZstdDecompressor(options=self._options)
            if piece or self.is_at_end:
                return piece
        return b""


class _Input:
    """Compressed bytes for decoders, in pieces that start small for each member."""

    def __init__(self, data: Buffer, codec: str) -> None:
        self._view = memoryview(data)
        self._codec = codec
        self._position = 0
        self._piece_bytes = _INPUT_FIRST_BYTES

    def take(self) -> memoryview:
        """Return the next bytes.

        Raises:
            CorruptRecordError: there are none, and the decoder needs some.
        """
        piece = self._view[self._position : self._position + self._piece_bytes]
        if not piece:
            raise _ends_early(self._codec)
        self._position += len(piece)
        self._piece_bytes = min(2 * self._piece_bytes, _INPUT_MAX_BYTES)
        return piece

    def end_member(self, unused: bytes) -> bytes:
        """Seek back to the start of the next member; return its first bytes, none at the end of the data."""
        self._position -= len(unused)
        self._piece_bytes = _INPUT_FIRST_BYTES
        return bytes(self._view[self._position : self._position + len(_GZIP_MAGIC)])


class Lz4Reader:
    """Reader of one lz4 frame; its blocks have 4 MiB at most."""

    def __init__(self, data: Buffer, buffer_bytes_max: int) -> None:
        from lz4 import frame

        self._view = memoryview(data)
        self._position = 0
        self._frame = frame
        self._context = frame.create_decompression_context()
        self.is_at_end = False

    def read(self, size_bytes_max: int) -> bytes:
        try:
            piece: bytes
            piece, read_bytes, self.is_at_end = self._frame.decompress_chunk(
                self._context, self._view[self._position :], max_length=min(size_bytes_max, _LZ4_PIECE_BYTES)
            )
        except RuntimeError as error:
            raise _corrupt_data("lz4", error) from error
        self._position += read_bytes
        if not self.is_at_end and not piece and not read_bytes:
            raise _ends_early("lz4")
        return piece


class SnappyReader:
    """Reader of snappy blocks in xerial's framing, or of one block without."""

    def __init__(self, data: Buffer, buffer_bytes_max: int) -> None:
        from cramjam import snappy

        self._snappy = snappy
        self._view = memoryview(data)
        self._buffer_bytes_max = buffer_bytes_max
        self._is_framed = bytes(self._view[: len(XERIAL_MAGIC)]) == XERIAL_MAGIC
        self._position = XERIAL_HEADER_SIZE_BYTES if self._is_framed else 0
        if self._position > len(self._view):
            raise _ends_early("snappy")
        self.is_at_end = self._is_framed and self._position == len(self._view)

    def read(self, size_bytes_max: int) -> bytes:
        """Return as many whole blocks as fit, and at least one."""
        if not self._is_framed:
            self.is_at_end = True
            self._claimed_bytes(self._view)
            return self._decode(self._view)
        out = bytearray()
        for _ in range(_STEPS_MAX):
            block, end = self._next_block()
            if block is not None:
                claimed_bytes = self._claimed_bytes(block)
                if out and len(out) + claimed_bytes > size_bytes_max:
                    break
                out += self._decode(block)
            self._position = end
            self.is_at_end = end == len(self._view)
            if self.is_at_end or len(out) >= size_bytes_max:
                break
        return bytes(out)

    def _next_block(self) -> tuple[memoryview | None, int]:
        """Return the next block and its end; None for a header, which SnappyInputStream skips here too."""
        view, position = self._view, self._position
        if bytes(view[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            # SnappyInputStream treats a partial header at the end of the stream as an empty one.
            return None, min(position + XERIAL_HEADER_SIZE_BYTES, len(view))
        if len(view) - position < _INT32.size:
            raise _ends_early("snappy")
        (length,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= length <= len(view) - position:
            raise _corrupt_data("snappy", f"a block of {length} bytes, where {len(view) - position} are left")
        return view[position : position + length], position + length

    def _claimed_bytes(self, block: memoryview) -> int:
        """Return the claimed size of a block, after comparing it with the limit and with the block's maximum."""
        try:
            claimed_bytes: int = self._snappy.decompress_raw_len(block)
        except import_module("cramjam").DecompressionError as error:
            raise _corrupt_data("snappy", error) from error
        if claimed_bytes > self._buffer_bytes_max:
            raise BufferLimitError
        if claimed_bytes > len(block) * _SNAPPY_EXPANSION_MAX:
            raise _corrupt_data("snappy", f"a block of {len(block)} bytes claims to hold {claimed_bytes}")
        return claimed_bytes

    def _decode(self, block: memoryview) -> bytes:
        try:
            return bytes(self._snappy.decompress_raw(block))
        except import_module("cramjam").DecompressionError as error:
            raise _corrupt_data("snappy", error) from error


def zstd_module() -> ModuleType:
    """Return the module of zstd: Python's own from 3.14 on."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

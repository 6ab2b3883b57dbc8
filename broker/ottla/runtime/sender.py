"""`Sender`: sends a link's outbox to its socket: gathered buffers with `sendmsg`, bytes of files with `sendfile`.

Bytes of files are limited per link and iteration of the loop, and bytes that are not in the page cache are first read
by another thread: neither many consumers nor the disk may delay clients with small requests.
"""

import array
import errno
import fcntl
import os
import socket
import termios
from collections.abc import Callable
from typing import Final

from ottla.ports import FileSlice
from ottla.runtime.event_loop import EventLoop
from ottla.runtime.link import Link
from ottla.runtime.page_cache import PageCache

_SENDFILE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of files per iteration, divided among the ready peers."""
_SLICE_BYTES_MIN: Final = 64 * 1024
_ENCRYPT_BYTES_MAX: Final = 256 * 1024
"""The same per call under TLS, which encrypts the bytes in this process."""
_GATHER_MAX: Final = 512
LARGE_BYTES: Final = 16 * 1024
"""Size of a response from which on the peer's reading is checked; a socket may hold so much for a peer that reads."""


class Sender:
    """Sender of a reactor.

    Args of the constructor:
        loop: runs completions of cold reads; its number of ready links divides the bytes of files per iteration.
        on_lost: receives a link whose connection failed, and the error.
        on_warmed: receives a link whose bytes have been read from the disk, to flush it again.
    """

    def __init__(
        self,
        loop: EventLoop,
        *,
        on_lost: Callable[[Link, OSError], None],
        on_warmed: Callable[[Link], None],
    ) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._on_warmed = on_warmed
        self._page_cache = PageCache()
        self._waiting = array.array("i", [0])

    def close(self) -> None:
        self._page_cache.close()

    def flush(self, link: Link) -> None:
        """Send as much of the outbox as the socket takes; of files no more than the link's share of the iteration."""
        left = link.file_bytes
        if link.outbox_bytes > LARGE_BYTES:
            link.is_sent_much = True
        try:
            if link.tls is not None:
                link.tls.flush()
            while link.outbox and not link.is_warming:
                is_file = link.outbox[0].__class__ is FileSlice
                if not (self._send_file(link, left) if is_file else self._send_buffers(link)):
                    return
        except BlockingIOError:
            return
        except OSError as error:
            self._on_lost(link, error)

    def is_behind(self, link: Link) -> bool:
        """Return whether the peer has not received its last large response; False if the system does not report it."""
        try:
            fcntl.ioctl(link.sock, termios.TIOCOUTQ, self._waiting)
        except OSError:
            self._waiting[0] = 0
        link.is_sent_much = self._waiting[0] > LARGE_BYTES
        return link.is_sent_much

    def _send_buffers(self, link: Link) -> bool:
        """Gather the buffers at the outbox's head into one call; return whether the socket took them all."""
        first = link.outbox[0]
        if len(link.outbox) == 1:
            assert not isinstance(first, FileSlice)
            sent = link.stream.send(first)
            link.outbox_bytes -= sent
            if sent < len(first):
                link.outbox[0] = memoryview(first)[sent:]
                return False
            link.outbox.popleft()
            return True
        gathered = []
        followed_by_file = False
        for chunk in link.outbox:
            if isinstance(chunk, FileSlice):
                followed_by_file = True
                break
            gathered.append(chunk)
            if len(gathered) == _GATHER_MAX:
                break
        # MSG_MORE: headers and the file bytes behind them leave in the same packets.
        flags = socket.MSG_MORE if followed_by_file and hasattr(socket, "MSG_MORE") else 0
        sent = link.stream.sendmsg(gathered, (), flags)
        link.outbox_bytes -= sent
        for chunk in gathered:
            if sent < len(chunk):
                link.outbox[0] = memoryview(chunk)[sent:]
                return False
            sent -= len(chunk)
            link.outbox.popleft()
        return True

    def _send_file(self, link: Link, left_before: int) -> bool:
        chunk = link.outbox[0]
        assert isinstance(chunk, FileSlice)
        descriptor = chunk.file.fileno()
        share = (
            max(_SLICE_BYTES_MIN, _SENDFILE_BYTES_MAX // max(1, self._loop.ready_count)) - left_before + link.file_bytes
        )
        if share <= 0:
            return False
        size = min(chunk.size_bytes, share if link.tls is None else min(share, _ENCRYPT_BYTES_MAX))
        if link.warmed is not chunk and not self._page_cache.holds(descriptor, chunk.position, size):
            if self._warm(link, chunk, size):
                return False
            link.warmed = chunk
        if link.tls is None:
            sent = os.sendfile(link.sock.fileno(), descriptor, chunk.position, size)
        else:
            sent = link.tls.send_file(descriptor, chunk.position, size)
        if sent == 0:
            raise OSError(errno.EIO, f"{chunk.file.path} is shorter than the bytes to be sent from it")
        link.outbox_bytes, link.file_bytes = link.outbox_bytes - sent, link.file_bytes - sent
        if sent == chunk.size_bytes:
            link.outbox.popleft()
            return True
        link.outbox[0] = FileSlice(chunk.file, chunk.position + sent, chunk.size_bytes - sent)
        return False

    def _warm(self, link: Link, chunk: FileSlice, size_bytes: int) -> bool:
        """Have another thread read bytes that are not in the page cache: the disk must not block the loop.

        Return False if there is no thread for it.
        """

        def warmed() -> None:
            link.is_warming = False
            link.warmed = chunk
            self._on_warmed(link)

        file = chunk.file.fileno()
        link.is_warming = self._page_cache.load(file, chunk.position, size_bytes, lambda: self._loop.post(warmed))
        return link.is_warming

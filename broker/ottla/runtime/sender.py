"""`Sender`: what waits in a link's outbox goes to its socket: buffers gathered, bytes of files by `sendfile`.

Of files a link sends its share of a turn of the loop and no more, and what is not in the page cache is read there by
another thread first: neither a crowd of consumers nor the disk holds up those who ask for little.
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
from ottla.runtime.link import Link
from ottla.runtime.page_cache import PageCache

_SENDFILE_BYTES_MAX: Final = 1024 * 1024
"""At most this much of files goes to the peers that are ready before others have their turn; they share it."""
_SLICE_BYTES_MIN: Final = 64 * 1024
_ENCRYPT_BYTES_MAX: Final = 256 * 1024
"""The same under TLS, where the bytes go through this process."""
_GATHER_MAX: Final = 512
LARGE_BYTES: Final = 16 * 1024
"""Of an answer, from which on it matters whether its peer takes it; so much may wait in the socket of one that does."""


class Sender:
    """See the module; ``ready_count`` is how many links share this turn of the loop.

    Args of the constructor:
        post: runs a function on the loop soon; called from another thread.
        on_lost: told of a link whose connection failed, and how.
        on_warmed: told of a link whose bytes have come from the disk: it is to be flushed again.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], None],
        *,
        on_lost: Callable[[Link, OSError], None],
        on_warmed: Callable[[Link], None],
    ) -> None:
        self.ready_count = 1
        self._post = post
        self._on_lost = on_lost
        self._on_warmed = on_warmed
        self._page_cache = PageCache()
        self._waiting = array.array("i", [0])

    def close(self) -> None:
        self._page_cache.close()

    def flush(self, link: Link) -> None:
        """Send what the socket takes of the outbox, and of files no more than the connection's share of a turn."""
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
        """Return whether the peer has yet to take what it was sent; False where the system cannot tell."""
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
        share = max(_SLICE_BYTES_MIN, _SENDFILE_BYTES_MAX // max(1, self.ready_count)) - left_before + link.file_bytes
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
            raise OSError(errno.EIO, f"{chunk.file.path} ended before the bytes that were promised from it")
        link.outbox_bytes, link.file_bytes = link.outbox_bytes - sent, link.file_bytes - sent
        if sent == chunk.size_bytes:
            link.outbox.popleft()
            return True
        link.outbox[0] = FileSlice(chunk.file, chunk.position + sent, chunk.size_bytes - sent)
        return False

    def _warm(self, link: Link, chunk: FileSlice, size_bytes: int) -> bool:
        """Have another thread read what is not in the page cache: the disk must not stop the loop.

        Return False where it cannot.
        """

        def warmed() -> None:
            link.is_warming = False
            link.warmed = chunk
            self._on_warmed(link)

        file = chunk.file.fileno()
        link.is_warming = self._page_cache.load(file, chunk.position, size_bytes, lambda: self._post(warmed))
        return link.is_warming

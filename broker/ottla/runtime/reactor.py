"""`Reactor`: the connections of a node and the loop that drives it: reads, frames to the core, responses, timers.

One thread, one `selectors` selector, no asyncio: the data path is `recv_into` a buffer that the core chose, `sendmsg`
of the buffers that it returned, and `sendfile` for record bytes that are still on disk. Slow operations (fsync, cold
reads, HTTP) run on other threads and return through `post`. Decision record: broker/decisions/0001-own-event-loop.md.
"""

import selectors
import socket
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from ottla.metrics.network import NetworkMetrics
from ottla.ports import Chunk, Clock, ConnectionId, FileSlice
from ottla.runtime.acceptor import Acceptor
from ottla.runtime.connector import Connector
from ottla.runtime.core import Core
from ottla.runtime.defects import Defects
from ottla.runtime.deferred_links import DeferredLinks
from ottla.runtime.event_loop import EventLoop
from ottla.runtime.lingering import Lingering
from ottla.runtime.link import Link, SocketOptions, endpoint_of, peer_of
from ottla.runtime.link_watch import LinkWatch
from ottla.runtime.response_group import ResponseGroup
from ottla.runtime.sender import LARGE_BYTES, Sender
from ottla.runtime.tls_links import TlsLinks
from ottla.runtime.unsent_limits import UnsentLimits
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.runtime.handshakes import Handshakes
    from ottla.runtime.tls_stream import TlsStream

_QUEUED_BYTES_MAX = 1024 * 1024
"""Above this a connection accepts no more responses until its peer has read some."""
_READS_PER_EVENT = 2
"""The size of a frame and the frame, if the core reads them separately."""


class Reactor:
    """Implements `ports.Network` for one node, runs its loop; ``handshakes`` is None if every listener is plaintext."""

    def __init__(
        self,
        clock: Clock,
        options: SocketOptions | None = None,
        handshakes: "Handshakes | None" = None,
        metrics: NetworkMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._options = options or SocketOptions()
        metrics = metrics or NetworkMetrics()
        self.defects = Defects(clock, metrics)
        self.loop = EventLoop(clock, self.defects, metrics.loop)
        self.idle = self.loop.idle
        self.post = self.loop.post
        self.stop = self.loop.stop
        self._unsent_limits = UnsentLimits(clock, self._options, metrics, self._give_up)
        self._links: dict[ConnectionId, Link] = {}
        self._ids = count(1)
        self._core: Core  # set by `run`
        self._being_read: Link | None = None
        self.responses = ResponseGroup(self._flush, self._fail_link)
        self._sender = Sender(self.loop, on_lost=self._lose, on_warmed=self._on_warmed)
        self._deferred = DeferredLinks(clock, self._on_slice)
        selector = self.loop.selector
        self._connector = Connector(selector, self.post, on_connected=self._on_connected, on_failed=self._on_unreached)
        self._watch = LinkWatch(
            selector, self._links, on_event=self._on_event, on_tls_event=self._on_tls_event, on_hang_up=self._on_hang_up
        )
        self._lingering = Lingering(clock)
        self._acceptor = Acceptor(
            selector=selector,
            clock=clock,
            options=self._options,
            has_capacity=lambda name: self._tls is None or self._tls.has_capacity(name),
            metrics=metrics,
            on_accepted=self._on_accepted,
        )
        self._tls: TlsLinks | None = None
        if handshakes is not None:
            self._tls = TlsLinks(
                handshakes,
                self._links,
                self._watch,
                self._sender,
                post=self.post,
                on_secured=self._on_secured,
                on_failed=self._give_up,
            )

    def listen(self, name: str, host: str, port: int) -> int:
        """Open the listener ``name``; return its port, which the system chooses when ``port`` is 0.

        Raises:
            OSError: the address cannot be bound.
        """
        if self._tls is not None:
            self._tls.add_listener(name)
        return self._acceptor.open(name, host, port)

    def run(self, core: Core) -> None:
        """Drive ``core`` until `stop`."""
        self._core = core
        self.loop.run(self, core)

    def serve_waiting(self) -> None:
        """See `event_loop.LoopHandler`."""
        if self._deferred.links:
            self._deferred.serve_slice()
        if self._tls is not None:
            self._tls.handshakes.submit_steps()
        self._acceptor.resume_due()
        for link in self._lingering.take_expired():
            if link.id in self._links:
                self._drop(link)
        if self._unsent_limits.links:
            self._unsent_limits.enforce()

    def on_failed_event(self, callback: object, error: Exception) -> None:
        """Close the connection whose event raised an unexpected exception."""
        arguments = callback.args if isinstance(callback, partial) else ()
        if arguments and isinstance(arguments[0], Link):
            self._fail_link(arguments[0], error)
        else:
            self.defects.note("an event was dropped", error)

    def _fail_link(self, link: Link, error: Exception) -> None:
        self._being_read = None
        self.defects.note(f"closing connection from {peer_of(link.sock)}", error)
        try:
            if link.id in self._links:
                self._give_up(link, f"an unexpected error: {type(error).__name__}")
        except Exception as another:
            self.defects.note("a closed connection could not be reported", another)

    def disconnect(self) -> int:
        """Shut down listeners and connections, on another thread than the loop's; return the number of connections."""
        self._acceptor.shut_down()
        return self._watch.shut_down_links()

    def close(self) -> None:
        """Close every socket; queued bytes that a socket does not take at once are lost."""
        for link in list(self._links.values()):
            self._drop(link)
        self._lingering.close()
        if self._tls is not None:
            self._tls.handshakes.close()
        self._connector.close()
        self._watch.close()
        self.loop.close()
        self._acceptor.close()
        self._sender.close()

    # --- ports.Network --------------------------------------------------------------------------------------------

    def send(self, connection: ConnectionId, chunks: Sequence[Chunk]) -> bool:
        link = self._links.get(connection)
        if link is None or link.closing:
            return True
        outbox = link.outbox
        was_empty = not outbox
        for chunk in chunks:
            outbox.append(chunk)
            link.outbox_bytes += len(chunk)
            if chunk.__class__ is FileSlice:
                link.file_bytes += len(chunk)
        # Responses to the requests of one read leave in one write: `_read` flushes.
        if link is not self._being_read:
            if was_empty and link.tls is None and link.outbox_bytes <= LARGE_BYTES:
                self.responses.add(link)
            elif not link.is_in_group:
                if was_empty:
                    self._sender.flush(link)
                    self._watch.update(link)
                if outbox or link.tls is not None:
                    self._unsent_limits.update(link, has_moved=False)
        link.is_backpressured = link.outbox_bytes > _QUEUED_BYTES_MAX
        return not link.is_backpressured

    def close_connection(self, connection: ConnectionId, *, at_once: bool = False) -> None:
        link = self._links.get(connection)
        if link is None:
            self._connector.cancel(connection)
            if self._tls is not None:
                self._tls.handshakes.remove(connection)
            return
        if at_once:
            self._drop(link, self._lingering.send_end)
            return
        link.closing, link.is_reading = True, False
        self._watch.stop_hang_up_watch(link)
        if link.outbox:
            self._sender.flush(link)
        if link.has_unsent and link.is_secure:
            self._watch.update(link)
            self._lingering.add(link)
        else:
            self._drop(link)

    def unsent_bytes(self, connection: ConnectionId) -> int:
        """See `ports.Memory`."""
        link = self._links.get(connection)
        return 0 if link is None else link.memory_bytes

    def abort_connection(self, connection: ConnectionId) -> None:
        """See `ports.Memory`; `Core.closed` reports it."""
        link = self._links.get(connection)
        if link is not None:
            self._give_up(link, "its memory is needed")

    def pause_reading(self, connection: ConnectionId) -> None:
        link = self._links.get(connection)
        if link is not None:
            # The registration changes only if bytes arrive meanwhile: most pauses end before that.
            link.is_reading = False
            if link.has_hung_up:
                self._watch.watch_for_hang_up(link)

    def resume_reading(self, connection: ConnectionId) -> None:
        link = self._links.get(connection)
        if link is not None and not link.is_reading and not link.closing:
            link.is_reading = True
            link.has_hung_up = False
            self._watch.stop_hang_up_watch(link)
            if not link.watched & selectors.EVENT_READ:
                self._watch.update(link)
            if link.tls is not None and link.tls.has_pending:
                self._deferred.add(link, selectors.EVENT_READ)

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        self._acceptor.pause(listener, for_ms)

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        """See `ports.Network`; the TLS settings of ``listener`` apply."""
        connection = next(self._ids)
        if self._tls is not None:
            self._tls.handshakes.expect(connection, endpoint, listener)
        self._connector.connect(connection, endpoint)
        return connection

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        self._connector.names.resolve_ahead(endpoint)

    # --- events ---------------------------------------------------------------------------------------------------

    def timeout_s(self) -> float | None:
        """See `event_loop.LoopHandler`."""
        if self.loop.posted or self._deferred.links or self.idle.has_work:
            return 0
        deadlines_ms = (
            self._core.next_deadline_ms(),
            self._acceptor.next_deadline_ms(),
            self._unsent_limits.next_deadline_ms(),
            self._lingering.next_deadline_ms(),
            None if self._tls is None else self._tls.handshakes.next_deadline_ms(),
        )
        deadline_ms = min((each for each in deadlines_ms if each is not None), default=None)
        return None if deadline_ms is None else max(0, deadline_ms - self._clock.monotonic_ms()) / 1000

    def _on_accepted(self, sock: socket.socket, peer: Endpoint, name: str) -> None:
        connection = next(self._ids)
        link = self._links[connection] = Link(connection, sock)
        try:
            self._admit(link, peer, name)
        except Exception as error:
            self._fail_link(link, error)

    def _admit(self, link: Link, peer: Endpoint, name: str) -> None:
        """Offer a connection to the core; close it if the core rejects it."""
        local_address = endpoint_of(link.sock.getsockname()) if self._options.reports_local_address else None
        if not self._core.accepted(link.id, listener=name, peer=peer, local_address=local_address):
            self._drop(link)
            return
        if self._tls is not None:
            self._tls.secure_accepted(link, peer, name)
        self._watch.update(link)

    def _on_event(self, link: Link, events: int) -> None:
        if link.id not in self._links:
            return  # closed in this iteration of the loop
        # Bytes of files are usually many. A peer that reads them, or requests more than it reads, is served last.
        reads_much = link.file_bytes and events & selectors.EVENT_WRITE
        if link.deferred_events or reads_much or (link.is_sent_much and self._sender.is_behind(link)):
            self._deferred.add(link, events)
        elif events == selectors.EVENT_READ and link.is_reading:
            self._read(link)
        else:
            self._serve(link, events)

    def _on_slice(self, link: Link, events: int) -> None:
        """Serve a deferred link."""
        if not link.is_reading:
            events &= ~selectors.EVENT_READ  # the selector will report the bytes in the socket again
        if link.id not in self._links:
            return
        try:
            self._serve(link, events)
            if link.tls is not None:
                self._check_buffered(link, link.tls)
        except Exception as error:
            self._fail_link(link, error)

    def _serve(self, link: Link, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._sender.flush(link)
            if link.id not in self._links:
                return
            self._after_flush(link)
        if events & selectors.EVENT_READ:
            if link.is_reading:
                self._read(link)
            else:
                self._watch.update(link)
                self._watch.watch_for_hang_up(link)

    def _on_hang_up(self, connection: ConnectionId) -> None:
        """Close the connection of a peer that hangs up while its request is being served, as nginx does.

        If the peer only waits to be read, it is read to its end: producers with acks=0 send and hang up. The core
        decides again when reading is paused again before the end was read.
        """
        link = self._links[connection]
        try:
            if self._core.serves_rest(connection):
                link.has_hung_up = True
                self._watch.stop_hang_up_watch(link)
            else:
                self._lose(link, None)
        except Exception as error:
            self._fail_link(link, error)

    def _on_connected(self, connection: ConnectionId, sock: socket.socket) -> None:
        link = self._links[connection] = Link(connection, sock)
        if self._tls is not None and self._tls.secure_outgoing(link):
            return
        self._watch.update(link)
        self._core.connected(connection)

    def _on_unreached(self, connection: ConnectionId, reason: str, was_connection_refused: bool) -> None:
        if self._tls is not None:
            self._tls.handshakes.remove(connection)
        self._core.closed(connection, reason, was_connection_refused=was_connection_refused)

    # --- TLS ------------------------------------------------------------------------------------------------------

    def _on_tls_event(self, link: Link, events: int) -> None:
        """Serve events as `_on_event` does; then check for bytes that the TLS stream still buffers."""
        if link.id not in self._links:
            return
        assert link.tls is not None
        if not link.is_secure:
            assert self._tls is not None
            self._tls.on_event(link, events)
            return
        self._on_event(link, events)
        self._check_buffered(link, link.tls)

    def _check_buffered(self, link: Link, tls: "TlsStream") -> None:
        """Defer the reading of buffered bytes, which no selector reports, and watch for unsent ones."""
        if link.id in self._links:
            if link.is_reading and tls.has_pending:
                self._deferred.add(link, selectors.EVENT_READ)
            if tls.has_unsent and not link.watched & selectors.EVENT_WRITE:
                self._unsent_limits.update(link, has_moved=False)
                self._watch.update(link)

    def _on_secured(self, link: Link, subject: str | None, is_outgoing: bool) -> None:
        """Report a completed handshake, read the bytes that followed it, and watch for more."""
        if is_outgoing:
            self._core.connected(link.id)
        else:
            self._core.secured(link.id, subject)
        if link.id in self._links:
            self._watch.update(link)
            self._on_tls_event(link, 0)

    def _read(self, link: Link) -> None:
        """Read until the socket is empty or the core pauses reading; defer the rest beyond the link's share."""
        core = self._core
        for _ in range(_READS_PER_EVENT):
            buffer = core.receive_buffer(link.id)
            try:
                size = link.stream.recv_into(buffer)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(link, error)
                return
            if size == 0:
                self._flush(link)  # the previous read of this event may have left a response in the group
                self._lose(link, None)
                return
            self._being_read = link
            core.received(link.id, size)
            self._being_read = None
            if link.outbox:
                send = self.responses.add if self.responses.is_open and link.tls is None else self._flush
                send(link)
            if size < len(buffer) or not link.is_reading or link.id not in self._links:
                return
        self._deferred.add(link, selectors.EVENT_READ)

    def _flush(self, link: Link) -> None:
        """Send the responses to what was read."""
        if link.id in self._links:
            before_bytes = link.outbox_bytes
            self._sender.flush(link)
            # Most responses leave completely, and then nothing else has changed.
            has_changed = link.outbox or link.closing or link.is_backpressured or link.id in self._unsent_limits.links
            if has_changed and link.id in self._links:
                self._after_flush(link, has_moved=link.outbox_bytes < before_bytes)

    def _on_warmed(self, link: Link) -> None:
        """Send the bytes of a link that have been read from the disk."""
        if link.id in self._links:
            self._serve(link, selectors.EVENT_WRITE)

    def _after_flush(self, link: Link, *, has_moved: bool = True) -> None:
        if link.closing and not link.has_unsent:
            self._drop(link)
            return
        self._unsent_limits.update(link, has_moved=has_moved)
        if link.is_backpressured and link.outbox_bytes <= _QUEUED_BYTES_MAX // 2:
            link.is_backpressured = False
            self._core.drained(link.id)
        self._watch.update(link)

    def _lose(self, link: Link, error: OSError | None) -> None:
        """Report a connection that its peer closed or that failed."""
        if link.id in self._links:
            self._drop(link)
            self._core.closed(link.id, "closed by the peer" if error is None else str(error))

    def _give_up(self, link: Link, reason: str) -> None:
        """Close a connection, and report it unless the core has closed it already."""
        self._drop(link)
        if not link.closing:
            self._core.closed(link.id, reason)

    def _drop(self, link: Link, end: Callable[[socket.socket], None] = socket.socket.close) -> None:
        self._links.pop(link.id, None)
        self._unsent_limits.remove(link)
        self._watch.remove(link)
        if self._tls is not None:
            self._tls.end(link)
        link.outbox.clear()
        end(link.sock)

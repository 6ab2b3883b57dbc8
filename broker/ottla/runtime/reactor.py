"""The loop that drives a node: sockets in, frames to the core, answers out, timers on time.

One thread, one `selectors` selector, no asyncio: the data path is `recv_into` a buffer that the core chose, `sendmsg`
of the buffers that it returned, and `sendfile` for record bytes that are still on disk. Whatever takes long (fsync,
cold reads, HTTP) runs on other threads and comes back through `post`.

Decision record: broker/decisions/0001-own-event-loop.md.
"""

import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from ottla.metrics.network import NetworkMetrics
from ottla.ports import Chunk, Clock, ConnectionId, FileSlice
from ottla.runtime.backlog import Backlog
from ottla.runtime.core import Core
from ottla.runtime.defects import Defects
from ottla.runtime.dialer import Dialer
from ottla.runtime.doors import Doors
from ottla.runtime.epoll_selector import new_selector
from ottla.runtime.hang_ups import HangUps
from ottla.runtime.idle_work import IdleWork
from ottla.runtime.link import Link, SocketOptions, endpoint_of, peer_of
from ottla.runtime.ready_connections import ReadyConnections
from ottla.runtime.sender import Sender
from ottla.runtime.unread import Unread
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.runtime.handshakes import Handshakes
    from ottla.runtime.tls_stream import TlsStream

logger = logging.getLogger(__name__)

_QUEUED_BYTES_MAX = 1024 * 1024
"""Above this a connection takes no more answers until its peer has read some."""
_READS_PER_EVENT = 2
"""A frame, where its size is read alone."""
LINGER_MS = 10_000
"""So long a peer may take what was queued for it when its connection was closed. No limit counts such connections."""


class Reactor:
    """Implements `ports.Network` for one node and runs its loop.

    Args of the constructor:
        handshakes: what secures connections; None where every listener is in the clear.
    """

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
        self.idle = IdleWork(self.defects)
        self._unread = Unread(clock, self._options, metrics, self._give_up)
        self._selector = new_selector()
        self._links: dict[ConnectionId, Link] = {}
        self._ids = count(1)
        self._stopping = False
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, self._on_wake)
        self._core: Core | None = None
        self._being_read: Link | None = None
        self._sender = Sender(self.post, on_lost=self._lose, on_warmed=self._on_warmed)
        self._backlog = Backlog(clock, self._on_turn)
        self._dialer = Dialer(
            self._selector, self.post, on_connected=self._on_connected, on_failed=self._on_failed_to_connect
        )
        self._hang_ups = HangUps(self._selector, self._on_hang_up)
        self._lingering: deque[tuple[int, Link]] = deque()
        self._doors = Doors(
            selector=self._selector,
            clock=clock,
            options=self._options,
            has_room=self._has_room,
            metrics=metrics,
            on_accepted=self._on_accepted,
        )
        self._handshakes = handshakes
        self._secured_doors: set[str] = set()
        if handshakes is not None:
            handshakes.report_to(
                post=self.post,
                on_secured=self._on_secured,
                on_failed=self._on_failed_handshake,
                on_waiting=self._on_waiting_handshake,
            )

    # --- set-up ---------------------------------------------------------------------------------------------------

    def listen(self, name: str, host: str, port: int) -> int:
        """Open the listener ``name``; return its port, which the system chooses when ``port`` is 0.

        Raises:
            OSError: the address cannot be bound.
        """
        if self._handshakes is not None and self._handshakes.secures(name):
            self._secured_doors.add(name)
        return self._doors.open(name, host, port)

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the loop soon; may be called from any thread."""
        self._posted.append(action)
        try:
            self._wake_writer.send(b"\0")
        except BlockingIOError:
            pass  # a wake-up is already on its way
        except OSError:
            logger.debug("the loop has ended; an action posted to it is dropped")

    def stop(self) -> None:
        """Leave `run` after the current round; may be called from any thread or signal handler."""
        self._stopping = True
        self.post(lambda: None)

    def run(self, core: Core) -> None:
        """Drive ``core`` until `stop`."""
        self._core = core
        select, posted = self._selector.select, self._posted
        sender, serve = self._sender, ReadyConnections(self._clock, self._on_defect).serve
        while not self._stopping:
            # Under load something is ready already, and nobody need work out how long to sleep.
            ready = select(0) or self._wait()
            sender.ready_count = len(ready)
            serve(ready)
            while posted:
                action = posted.popleft()
                try:
                    action()
                except Exception as error:
                    self.defects.note("a completion was dropped", error)
            try:
                self._serve_waiting()
            except Exception as error:
                self.defects.note("connections wait for the next iteration of the loop", error)
            core.tick()

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        if self.idle.has_work:
            self.idle.take_step()
        return self._selector.select(self._timeout_s())

    def _serve_waiting(self) -> None:
        """Continue with what no event of the selector tells of."""
        if self._backlog.links:
            self._backlog.turn()
        if self._handshakes is not None:
            self._handshakes.turn()
        self._doors.turn()
        if self._lingering:
            self._drop_lingering()
        if self._unread.links:
            self._unread.turn()

    def _on_defect(self, callback: object, error: Exception) -> None:
        """Give up the connection whose event raised what no code expected."""
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

    def close(self) -> None:
        """Close every socket; what is queued for a peer that does not take it at once is lost."""
        for link in list(self._links.values()):
            self._drop(link)
        if self._handshakes is not None:
            self._handshakes.close()
        self._dialer.close()
        self._hang_ups.close()
        self._selector.close()
        self._doors.close()
        self._wake_reader.close()
        self._wake_writer.close()
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
        # Requests that came in one read are answered in one write: `_read` flushes.
        if link is not self._being_read:
            if was_empty:
                self._sender.flush(link)
                self._watch(link)
            if outbox or link.tls is not None:
                self._unread.note(link, has_moved=False)
        link.told_to_wait = link.outbox_bytes > _QUEUED_BYTES_MAX
        return not link.told_to_wait

    def close_connection(self, connection: ConnectionId) -> None:
        link = self._links.get(connection)
        if link is None:
            self._dialer.cancel(connection)
            if self._handshakes is not None:
                self._handshakes.forget(connection)
            return
        link.closing = True
        link.is_reading = False
        self._forget_hang_up(link)
        if link.outbox:
            self._sender.flush(link)
        if link.has_unsent and link.is_secure:
            self._watch(link)
            self._lingering.append((self._clock.monotonic_ms() + LINGER_MS, link))
        else:
            self._drop(link)

    def unsent_bytes(self, connection: ConnectionId) -> int:
        """Return how many bytes in memory wait for the peer of ``connection`` to take them."""
        link = self._links.get(connection)
        return 0 if link is None else link.memory_bytes

    def abort_connection(self, connection: ConnectionId) -> None:
        """Close a connection without what is queued for it; `Core.closed` reports that."""
        link = self._links.get(connection)
        if link is not None:
            self._give_up(link, "its memory is needed")

    def pause_reading(self, connection: ConnectionId) -> None:
        link = self._links.get(connection)
        if link is not None:
            # The selector learns of it only if bytes arrive meanwhile: most pauses end before that.
            link.is_reading = False
            if link.has_hung_up:
                self._watch_for_hang_up(link)

    def resume_reading(self, connection: ConnectionId) -> None:
        link = self._links.get(connection)
        if link is not None and not link.is_reading and not link.closing:
            link.is_reading = True
            link.has_hung_up = False
            self._forget_hang_up(link)
            if not link.watched & selectors.EVENT_READ:
                self._watch(link)
            if link.tls is not None and link.tls.has_pending:
                self._backlog.add(link, selectors.EVENT_READ)

    def pause_accepting(self, listener: str, for_ms: int) -> None:
        self._doors.hold(listener, for_ms)

    def connect(self, endpoint: Endpoint, listener: str) -> ConnectionId:
        """See `ports.Network`; ``listener`` decides whether the connection is secured, and how."""
        connection = next(self._ids)
        if self._handshakes is not None:
            self._handshakes.expect(connection, endpoint, listener)
        self._dialer.dial(connection, endpoint)
        return connection

    # --- events ---------------------------------------------------------------------------------------------------

    def _timeout_s(self) -> float | None:
        assert self._core is not None
        if self._posted or self._backlog.links or self.idle.has_work:
            return 0
        lingers_until_ms = self._lingering[0][0] if self._lingering else None
        handshakes_until_ms = None if self._handshakes is None else self._handshakes.next_deadline_ms()
        parts_ms = (self._core.next_deadline_ms(), self._doors.next_deadline_ms(), self._unread.next_deadline_ms())
        deadlines_ms = (*parts_ms, lingers_until_ms, handshakes_until_ms)
        deadline_ms = min((each for each in deadlines_ms if each is not None), default=None)
        if deadline_ms is None:
            return None
        return max(0, deadline_ms - self._clock.monotonic_ms()) / 1000

    def _on_wake(self, _: int) -> None:
        try:
            while self._wake_reader.recv(4096):
                pass
        except BlockingIOError:
            pass

    def _on_accepted(self, sock: socket.socket, peer: Endpoint, name: str) -> None:
        link = self._adopt(next(self._ids), sock)
        try:
            self._admit(link, peer, name)
        except Exception as error:
            self._fail_link(link, error)

    def _admit(self, link: Link, peer: Endpoint, name: str) -> None:
        """Have the core take a connection, or close it."""
        assert self._core is not None
        dialled = endpoint_of(link.sock.getsockname()) if self._options.tells_dialled else None
        if not self._core.accepted(link.id, listener=name, peer=peer, dialled=dialled):
            self._drop(link)
            return
        # Who is not to be read needs no handshake either: it will be closed.
        if name in self._secured_doors and link.is_reading:
            assert self._handshakes is not None
            link.secure(self._handshakes.accept(link.id, link.sock, listener=name, peer=peer))
        self._watch(link)

    def _has_room(self, name: str) -> bool:
        return name not in self._secured_doors or self._handshakes is None or self._handshakes.has_room(name)

    def _drop_lingering(self) -> None:
        """Let go of connections that were closed long ago, and whose peers do not take the rest."""
        now_ms = self._clock.monotonic_ms()
        while self._lingering and self._lingering[0][0] <= now_ms:
            _, link = self._lingering.popleft()
            if link.id in self._links:
                self._drop(link)

    def _adopt(self, connection: ConnectionId, sock: socket.socket) -> Link:
        link = self._links[connection] = Link(connection, sock)
        return link

    def _on_event(self, link: Link, events: int) -> None:
        if link.id not in self._links:
            return  # closed in this very round of the loop
        # Bytes of files are many as a rule. Who takes them, or asks for more than it takes, comes behind the others.
        takes_much = link.file_bytes and events & selectors.EVENT_WRITE
        if link.events_put_off or takes_much or (link.is_sent_much and self._sender.is_behind(link)):
            self._backlog.add(link, events)
        elif events == selectors.EVENT_READ and link.is_reading:
            self._read(link)
        else:
            self._serve(link, events)

    def _on_turn(self, link: Link, events: int) -> None:
        """Serve a link that was put off."""
        if not link.is_reading:
            events &= ~selectors.EVENT_READ  # what is in the socket is told of again
        if link.id not in self._links:
            return
        try:
            self._serve(link, events)
            if link.tls is not None:
                self._look_behind(link, link.tls)
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
                self._watch(link)
                self._watch_for_hang_up(link)

    def _on_hang_up(self, connection: ConnectionId) -> None:
        """Whoever hangs up while its request is in hand does not want the answer any more, as for nginx.

        Where the peer only waits to be read, it is read to its end: a produce with acks=0 is sent and left alone. It is
        asked again when it is paused anew without having been read meanwhile.
        """
        assert self._core is not None
        link = self._links[connection]
        try:
            if self._core.serves_rest(connection):
                link.has_hung_up = True
                self._forget_hang_up(link)
            else:
                self._lose(link, None)
        except Exception as error:
            self._fail_link(link, error)

    def _on_connected(self, connection: ConnectionId, sock: socket.socket) -> None:
        assert self._core is not None
        link = self._adopt(connection, sock)
        tls = None if self._handshakes is None else self._handshakes.connect(connection, sock)
        if tls is not None:
            # The handshake begins on its turn.
            link.secure(tls)
            link.is_reading = False
            return
        self._watch(link)
        self._core.connected(connection)

    def _on_failed_to_connect(self, connection: ConnectionId, reason: str, was_refused: bool) -> None:
        assert self._core is not None
        if self._handshakes is not None:
            self._handshakes.forget(connection)
        self._core.closed(connection, reason, was_refused=was_refused)

    # --- TLS ------------------------------------------------------------------------------------------------------

    def _on_tls_event(self, link: Link, events: int) -> None:
        """As `_on_event`; behind it the stream may still have bytes to read or to send."""
        if link.id not in self._links:
            return
        assert link.tls is not None
        if not link.is_secure:
            self._on_handshake_event(link, events)
            return
        self._on_event(link, events)
        self._look_behind(link, link.tls)

    def _look_behind(self, link: Link, tls: "TlsStream") -> None:
        """No selector tells of bytes that are here already, and of those that wait only when it is asked to."""
        if link.id in self._links:
            if link.is_reading and tls.has_pending:
                self._backlog.add(link, selectors.EVENT_READ)
            if tls.has_unsent and not link.watched & selectors.EVENT_WRITE:
                self._unread.note(link, has_moved=False)
                self._watch(link)

    def _on_handshake_event(self, link: Link, events: int) -> None:
        assert self._handshakes is not None
        if events & selectors.EVENT_WRITE:
            self._sender.flush(link)
        if events & selectors.EVENT_READ and link.id in self._links:
            # Until it is its turn, its bytes stay in the socket.
            link.is_reading = False
            self._handshakes.on_readable(link.id)
        self._watch(link)

    def _on_waiting_handshake(self, connection: ConnectionId) -> None:
        link = self._links[connection]
        link.is_reading = True
        self._watch(link)

    def _on_secured(self, connection: ConnectionId, subject: str | None, is_outgoing: bool) -> None:
        """Report that a handshake is through, read what came with its last bytes, and watch for more."""
        assert self._core is not None
        link = self._links[connection]
        link.is_secure = link.is_reading = True
        if is_outgoing:
            self._core.connected(connection)
        else:
            self._core.secured(connection, subject)
        if link.id in self._links:
            self._watch(link)
            self._on_tls_event(link, 0)

    def _on_failed_handshake(self, connection: ConnectionId, reason: str) -> None:
        assert self._core is not None
        self._drop(self._links[connection])
        self._core.closed(connection, reason)

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self, link: Link) -> None:
        """Read until the socket is empty or the core has enough; put off what is more than a share of the turn."""
        core = self._core
        assert core is not None
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
                self._lose(link, None)
                return
            self._being_read = link
            core.received(link.id, size)
            self._being_read = None
            if link.outbox:
                before_bytes = link.outbox_bytes
                self._sender.flush(link)
                # Most answers leave whole, and nothing else has changed.
                if (link.outbox or link.closing or link.told_to_wait) and link.id in self._links:
                    self._after_flush(link, has_moved=link.outbox_bytes < before_bytes)
            if size < len(buffer) or not link.is_reading or link.id not in self._links:
                return
        self._backlog.add(link, selectors.EVENT_READ)

    # --- sending --------------------------------------------------------------------------------------------------

    def _on_warmed(self, link: Link) -> None:
        """What a link waited for has been read from the disk."""
        if link.id in self._links:
            self._sender.flush(link)
        if link.id in self._links:
            self._after_flush(link)

    def _after_flush(self, link: Link, *, has_moved: bool = True) -> None:
        if link.closing and not link.has_unsent:
            self._drop(link)
            return
        self._unread.note(link, has_moved=has_moved)
        if link.told_to_wait and link.outbox_bytes <= _QUEUED_BYTES_MAX // 2:
            link.told_to_wait = False
            assert self._core is not None
            self._core.drained(link.id)
        self._watch(link)

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def _watch(self, link: Link) -> None:
        """Ask the selector for exactly the events that matter to ``link`` now."""
        if link.id not in self._links:
            return
        wanted = selectors.EVENT_READ if link.is_reading else 0
        if (link.outbox and not link.is_warming) or (link.tls is not None and link.tls.has_unsent):
            wanted |= selectors.EVENT_WRITE
        if wanted == link.watched:
            return
        if wanted == 0:
            self._selector.unregister(link.sock)
        else:
            change = self._selector.modify if link.watched else self._selector.register
            change(link.sock, wanted, partial(self._on_event if link.tls is None else self._on_tls_event, link))
        link.watched = wanted

    def _watch_for_hang_up(self, link: Link) -> None:
        """Its bytes stay in the socket while it is not read, and its end is behind them."""
        if not link.is_checked_for_hang_up and not link.closing:
            link.is_checked_for_hang_up = True
            self._hang_ups.watch(link.sock, link.id)

    def _forget_hang_up(self, link: Link) -> None:
        if link.is_checked_for_hang_up:
            link.is_checked_for_hang_up = False
            self._hang_ups.forget(link.sock)

    def _lose(self, link: Link, error: OSError | None) -> None:
        """The peer is gone."""
        if link.id in self._links:
            self._drop(link)
            assert self._core is not None
            self._core.closed(link.id, "closed by the peer" if error is None else str(error))

    def _give_up(self, link: Link, reason: str) -> None:
        """Its peer does not take its answers; of one that the core has closed it is not told again."""
        assert self._core is not None
        self._drop(link)
        if not link.closing:
            self._core.closed(link.id, reason)

    def _drop(self, link: Link) -> None:
        self._links.pop(link.id, None)
        self._unread.forget(link)
        self._forget_hang_up(link)
        if link.watched:
            self._selector.unregister(link.sock)
            link.watched = 0
        if link.tls is not None:
            self._end_tls(link, link.tls)
        link.outbox.clear()
        link.sock.close()

    def _end_tls(self, link: Link, tls: "TlsStream") -> None:
        assert self._handshakes is not None
        if link.is_secure:
            tls.end()
        else:
            self._handshakes.forget(link.id)

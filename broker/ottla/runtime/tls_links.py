"""`TlsLinks`: the handshakes of a reactor's links; requests on secured links do not pass here.

While a handshake step is queued or runs, its link is not read: the bytes stay in the socket.
"""

import selectors
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.ports import ConnectionId
from ottla.runtime.link import Link
from ottla.runtime.link_watch import LinkWatch
from ottla.runtime.sender import Sender
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.runtime.handshakes import Handshakes


class TlsLinks:
    """Links under TLS until their handshakes are complete.

    Args of the constructor:
        post: runs a function on the loop soon; called from another thread.
        on_secured: receives a link whose handshake is complete, the subject of the peer's certificate, and whether this
            node opened the connection.
        on_failed: closes a link whose handshake failed; receives the reason.
    """

    def __init__(
        self,
        handshakes: "Handshakes",
        links: Mapping[ConnectionId, Link],
        watch: LinkWatch,
        sender: Sender,
        *,
        post: Callable[[Callable[[], None]], None],
        on_secured: Callable[[Link, str | None, bool], None],
        on_failed: Callable[[Link, str], None],
    ) -> None:
        self.handshakes = handshakes
        self._links = links
        self._watch = watch
        self._sender = sender
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._secured_listeners: set[str] = set()
        handshakes.report_to(
            post=post, on_secured=self._on_complete, on_failed=self._on_error, on_waiting=self._on_waiting
        )

    def add_listener(self, name: str) -> None:
        """Note an opened listener; its connections are secured if its settings say so."""
        if self.handshakes.secures(name):
            self._secured_listeners.add(name)

    def has_capacity(self, name: str) -> bool:
        """Return whether the listener ``name`` may accept one more connection."""
        return name not in self._secured_listeners or self.handshakes.has_capacity(name)

    def secure_accepted(self, link: Link, peer: Endpoint, name: str) -> None:
        """Secure a connection that the listener ``name`` accepted, if it uses TLS."""
        # A connection with paused reading will be closed, and needs no handshake.
        if name in self._secured_listeners and link.is_reading:
            link.secure(self.handshakes.accept(link.id, link.sock, listener=name, peer=peer))

    def secure_outgoing(self, link: Link) -> bool:
        """Secure a connection that this node opened; return False for a plaintext one."""
        tls = self.handshakes.connect(link.id, link.sock)
        if tls is None:
            return False
        # `Handshakes` starts the handshake when a step is due.
        link.secure(tls)
        link.is_reading = False
        return True

    def on_event(self, link: Link, events: int) -> None:
        """Serve the events of a link whose handshake is in progress."""
        if events & selectors.EVENT_WRITE:
            self._sender.flush(link)
        if events & selectors.EVENT_READ and link.id in self._links:
            # Its bytes stay in the socket until the step is due.
            link.is_reading = False
            self.handshakes.on_readable(link.id)
        self._watch.update(link)

    def end(self, link: Link) -> None:
        """End the TLS of a link that is being closed."""
        if link.tls is None:
            return
        if link.is_secure:
            link.tls.end()
        else:
            self.handshakes.remove(link.id)

    def _on_waiting(self, connection: ConnectionId) -> None:
        link = self._links[connection]
        link.is_reading = True
        self._watch.update(link)

    def _on_complete(self, connection: ConnectionId, subject: str | None, is_outgoing: bool) -> None:
        link = self._links[connection]
        link.is_secure = link.is_reading = True
        self._on_secured(link, subject, is_outgoing)

    def _on_error(self, connection: ConnectionId, reason: str) -> None:
        self._on_failed(self._links[connection], reason)

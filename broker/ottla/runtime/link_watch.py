"""`LinkWatch`: registers links with the selector for exactly the events that they need.

While reading from a link is paused, its bytes stay in the socket, and its end behind them: `HangUps` reports it then.
"""

import selectors
from collections.abc import Callable, Mapping
from functools import partial

from ottla.ports import ConnectionId
from ottla.runtime.hang_ups import HangUps
from ottla.runtime.link import Link, shut_down_socket


class LinkWatch:
    """Selector registrations of a reactor's links.

    Args of the constructor:
        links: the open links; a closed link is never registered.
        on_event: receives a plaintext link and its events.
        on_tls_event: receives a link under TLS and its events.
        on_hang_up: receives a connection whose peer has hung up.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        links: Mapping[ConnectionId, Link],
        *,
        on_event: Callable[[Link, int], None],
        on_tls_event: Callable[[Link, int], None],
        on_hang_up: Callable[[ConnectionId], None],
    ) -> None:
        self._selector = selector
        self._links = links
        self._on_event = on_event
        self._on_tls_event = on_tls_event
        self._hang_ups = HangUps(selector, on_hang_up)

    def update(self, link: Link) -> None:
        """Register ``link`` for the events that it needs now."""
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

    def shut_down_links(self) -> int:
        """Shut down every link while the loop is stalled; return their number. It gets their events when it runs again.

        Called on another thread.
        """
        links = list(self._links.values())
        for link in links:
            shut_down_socket(link.sock)
        return len(links)

    def watch_for_hang_up(self, link: Link) -> None:
        """Watch for the end of ``link``, which is not read, unless this node has closed it."""
        if not link.is_checked_for_hang_up and not link.closing:
            link.is_checked_for_hang_up = True
            self._hang_ups.watch(link.sock, link.id)

    def stop_hang_up_watch(self, link: Link) -> None:
        if link.is_checked_for_hang_up:
            link.is_checked_for_hang_up = False
            self._hang_ups.unwatch(link.sock)

    def remove(self, link: Link) -> None:
        """Unregister ``link``; call it before its socket is closed."""
        self.stop_hang_up_watch(link)
        if link.watched:
            self._selector.unregister(link.sock)
            link.watched = 0

    def close(self) -> None:
        self._hang_ups.close()

"""The admin HTTP server of a node: liveness, readiness and metrics.

    GET /healthz   200 while the node's event loop responds, or waits for a disk, else 503: restart the node
    GET /readyz    200 when clients are served, else 503 with the reasons
    GET /metrics   Prometheus text, or OpenMetrics if the client accepts it

The pages run in a thread of their own and read the node in slices that are too short to delay its loop. Importing them
takes a third of a second of CPU time, so the thread imports them only when the node is ready or a grace period has
passed; the socket listens from the start, so that early clients wait and do not fail.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.errors import ConfigurationError
from ottla.node.node import Node
from ottla.types import Endpoint

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

LOOP_TIMEOUT_S = 5.0
START_GRACE_S = 1.0
_STOP_TIMEOUT_S = 5.0
_SWITCH_INTERVAL_S = 0.0005
"""How long this thread may hold the GIL while the node's loop wants it; Python's default of 5 ms delays requests."""
_BACKLOG = 64


def open_admin_listener(endpoint: Endpoint) -> socket.socket:
    """Return a socket that listens on ``endpoint``; port 0 means any free port.

    Raises:
        ConfigurationError: the address cannot be bound; its cause is the OSError that says why.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        return socket.create_server(endpoint, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"ottla.admin.listener={endpoint} cannot be opened: {error.strerror or error}. Stop the "
            "program that listens there, or choose another port."
        ) from error


class AdminServer:
    """Thread that serves the admin pages; see the module.

    Args of the constructor:
        post: runs an action on the node's loop soon, from any thread.
        listening: the socket of `open_admin_listener`; `stop` closes it.
        disk_wait_s: returns for how many seconds the loop has been waiting for a disk, 0 if it does not.
        disk_wait_max_s: for how many seconds such a node counts as alive.
    """

    def __init__(
        self,
        node: Node,
        post: Callable[[Callable[[], None]], None],
        listening: socket.socket,
        *,
        disk_wait_s: Callable[[], float],
        disk_wait_max_s: float,
        start_grace_s: float = START_GRACE_S,
        loop_timeout_s: float = LOOP_TIMEOUT_S,
    ) -> None:
        self._node = node
        self._post = post
        self._socket = listening
        self._disk_wait_s = disk_wait_s
        self._disk_wait_max_s = disk_wait_max_s
        self._start_grace_s = start_grace_s
        self._loop_timeout_s = loop_timeout_s
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)
        self._may_import = threading.Event()
        self._is_stopping = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port that the socket is bound to."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Start the thread; clients that connect before the pages are loaded wait."""
        self._thread.start()

    def node_is_ready(self) -> None:
        """Allow the import of the pages, which was postponed so as not to slow the node's start."""
        self._may_import.set()

    def stop(self) -> None:
        """Stop serving, wait for the thread and close the socket."""
        with self._lock:
            self._is_stopping = True
            running = self._running
        self._may_import.set()
        if running is not None:
            loop, until = running
            with suppress(RuntimeError):  # the event loop has already ended
                loop.call_soon_threadsafe(until.set)
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT_S)
        self._socket.close()

    def _run(self) -> None:
        self._may_import.wait(self._start_grace_s)
        if self._is_stopping:
            return
        sys.setswitchinterval(min(_SWITCH_INTERVAL_S, sys.getswitchinterval()))
        try:
            import asyncio

            asyncio.run(self._serve())
        except Exception:
            # The data path continues without its admin pages; failing probes report it.
            logger.exception("the admin server ended")

    async def _serve(self) -> None:
        import asyncio

        from ottla.admin.pages import AdminPages

        until = asyncio.Event()
        with self._lock:
            if self._is_stopping:
                return
            self._running = asyncio.get_running_loop(), until
        pages = AdminPages(
            self._node,
            self._post,
            loop_timeout_s=self._loop_timeout_s,
            disk_wait_s=self._disk_wait_s,
            disk_wait_max_s=self._disk_wait_max_s,
        )
        await pages.serve(self._socket, until)

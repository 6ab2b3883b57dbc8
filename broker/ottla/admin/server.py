"""The admin HTTP of a node: whether it lives, whether it serves clients, and its metrics.

    GET /healthz   200 while the node's loop turns, else 503: restart it
    GET /readyz    200 when clients are served, else 503 with the reasons
    GET /metrics   Prometheus text, or OpenMetrics where the client asks for it

The pages run in a thread of their own and ask the node in slices that its loop does not feel. Importing them keeps the
interpreter busy for a third of a second, so the thread begins with that only when the node is ready or a grace has
passed; the socket listens from the start, so that early callers wait and do not fail.
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

ANSWER_TIMEOUT_S = 5.0
START_GRACE_S = 1.0
_STOP_TIMEOUT_S = 5.0
_SWITCH_INTERVAL_S = 0.0005
"""How long this thread may keep the interpreter from the node's loop; Python's own 5 ms would be felt by requests."""
_BACKLOG = 64


def open_admin_door(endpoint: Endpoint) -> socket.socket:
    """Return a socket that listens at ``endpoint``, on any free port where its port is 0.

    Raises:
        ConfigurationError: the address cannot be bound; its cause is the OSError that says why.
    """
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        return socket.create_server(endpoint, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"ottla.admin.listener={endpoint} cannot be opened: {error.strerror or error}. Stop what listens there, or "
            "choose another port."
        ) from error


class AdminServer:
    """See the module.

    Args of the constructor:
        post: runs an action on the node's loop soon, from any thread.
        door: made by `open_admin_door`; `stop` closes it.
    """

    def __init__(
        self,
        node: Node,
        post: Callable[[Callable[[], None]], None],
        door: socket.socket,
        *,
        start_grace_s: float = START_GRACE_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._node = node
        self._post = post
        self._socket = door
        self._start_grace_s = start_grace_s
        self._answer_timeout_s = answer_timeout_s
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)
        self._may_import = threading.Event()
        self._is_stopping = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port that is really listened on."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to serve soon; who comes earlier waits."""
        self._thread.start()

    def node_is_ready(self) -> None:
        """Do not hold back any longer what would have slowed the node's start."""
        self._may_import.set()

    def stop(self) -> None:
        """Close the door."""
        with self._lock:
            self._is_stopping = True
            running = self._running
        self._may_import.set()
        if running is not None:
            loop, until = running
            with suppress(RuntimeError):  # the event loop has ended by itself
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
            # The data path goes on without its admin pages; probes will tell.
            logger.exception("the admin server ended")

    async def _serve(self) -> None:
        import asyncio

        from ottla.admin.pages import AdminPages

        until = asyncio.Event()
        with self._lock:
            if self._is_stopping:
                return
            self._running = asyncio.get_running_loop(), until
        pages = AdminPages(self._node, self._post, answer_timeout_s=self._answer_timeout_s)
        await pages.serve(self._socket, until)

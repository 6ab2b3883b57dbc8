"""`NameResolver`: host names become addresses on threads of their own, and old addresses serve when no server responds.

A name is resolved again for every connection, because a restarted pod has another address. While name servers hang,
which takes a resolver 10 s and more to find out, or report a temporary failure, the addresses are used that the name
had last: a cluster that has lost its name servers can still elect, and replicate. `resolve_ahead` learns the addresses
of nodes that were never connected to. A name that a server reports not to exist has no addresses any more.

Apache Kafka waits for the resolver; the JVM keeps addresses for 30 s.
"""

import errno
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.types import Endpoint

logger = logging.getLogger(__name__)

SLOW_AFTER_S: Final = 0.5
"""How long a name server has, where there are addresses to use without it."""
_AHEAD_MAX: Final = 4
"""Names in resolution, beyond which none is resolved ahead: while name servers hang, each has a thread."""

_Post: TypeAlias = Callable[[Callable[[], None]], None]


class Address(NamedTuple):
    family: int
    sockaddr: tuple[Any, ...]


OnResolved: TypeAlias = Callable[[list[Address], OSError | None], None]
"""Receives the addresses; none, and the reason, if the name cannot be resolved."""


@dataclass(slots=True, eq=False)
class _Resolution:
    """A name that is being resolved."""

    waiting: list[OnResolved] = field(default_factory=list)
    is_slow: bool = False
    timer: threading.Timer | None = None


class NameResolver:
    """See the module. All methods are called on the loop, and so are callbacks, never before `resolve` returns.

    Args of the constructor:
        post: runs a function on the loop soon; may be called from any thread.
    """

    def __init__(self, post: _Post) -> None:
        self._post = post
        self._resolutions: dict[Endpoint, _Resolution] = {}
        self._last_known: dict[str, list[Address]] = {}
        """By host name; the ports are those of any of its endpoints."""
        self._unresponsive: set[str] = set()
        """Names that no server has resolved since the last addresses were used: one line in the log for each."""

    def resolve(self, endpoint: Endpoint, on_resolved: OnResolved) -> None:
        """Call ``on_resolved`` with the addresses of the endpoint."""
        numeric = _numeric_address(endpoint)
        if numeric is not None:
            self._post(lambda: on_resolved([numeric], None))
            return
        resolution = self._resolution_of(endpoint)
        resolution.waiting.append(on_resolved)
        if resolution.is_slow:
            self._post(lambda: self._use_last(endpoint, resolution))

    def resolve_ahead(self, endpoint: Endpoint) -> None:
        """Learn the addresses of the endpoint's host, unless several names are being resolved already."""
        if len(self._resolutions) < _AHEAD_MAX and _numeric_address(endpoint) is None:
            self._resolution_of(endpoint)

    def _resolution_of(self, endpoint: Endpoint) -> _Resolution:
        """Return the resolution in progress, started now if there is none."""
        resolution = self._resolutions.get(endpoint)
        if resolution is None:
            resolution = self._resolutions[endpoint] = _Resolution()
            self._start(endpoint, resolution)
        return resolution

    def _start(self, endpoint: Endpoint, resolution: _Resolution) -> None:
        # A daemon thread: a name server that does not respond must not keep the process from exiting.
        thread = threading.Thread(target=self._run, args=(endpoint,), name="ottla-resolve", daemon=True)
        try:
            if endpoint.host in self._last_known:
                note_slow = partial(self._note_slow, endpoint, resolution)
                resolution.timer = threading.Timer(SLOW_AFTER_S, self._post, [note_slow])
                resolution.timer.daemon = True
                resolution.timer.start()
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # Too many threads or processes: the connection fails, and its owner retries later.
            failure = OSError(errno.EAGAIN, str(error))
            self._post(lambda: self._end(endpoint, [], failure))

    def _run(self, endpoint: Endpoint) -> None:
        """Resolve the host name, on a thread of its own."""
        addresses: list[Address] = []
        error: OSError | None = None
        try:
            addresses = _look_up(endpoint, 0)
        except OSError as caught:
            error = caught
        except Exception as caught:  # e.g. a host name that IDNA cannot encode, or no memory
            error = OSError(errno.EINVAL, str(caught))
        self._post(lambda: self._end(endpoint, addresses, error))

    def _note_slow(self, endpoint: Endpoint, resolution: _Resolution) -> None:
        """Stop waiting for name servers, while they are still asked."""
        if self._resolutions.get(endpoint) is resolution:
            resolution.is_slow = True
            self._use_last(endpoint, resolution)

    def _use_last(self, endpoint: Endpoint, resolution: _Resolution) -> None:
        known = self._last_known.get(endpoint.host)
        if known is None:
            return  # another endpoint of the host has learned that the name does not exist
        waiting, resolution.waiting = resolution.waiting, []
        if waiting and endpoint.host not in self._unresponsive:
            self._unresponsive.add(endpoint.host)
            logger.warning("no name server responds for %s; connecting to its last known address", endpoint.host)
        addresses = [_with_port(address, endpoint.port) for address in known]
        for on_resolved in waiting:
            on_resolved(addresses, None)

    def _end(self, endpoint: Endpoint, addresses: list[Address], error: OSError | None) -> None:
        resolution = self._resolutions.pop(endpoint)
        if resolution.timer is not None:
            resolution.timer.cancel()
        if error is None:
            self._last_known[endpoint.host] = addresses
            self._unresponsive.discard(endpoint.host)
        elif error.errno == socket.EAI_AGAIN and endpoint.host in self._last_known:
            self._use_last(endpoint, resolution)
        elif error.errno == socket.EAI_NONAME:
            self._last_known.pop(endpoint.host, None)
        for on_resolved in resolution.waiting:
            on_resolved(addresses, error)


def _numeric_address(endpoint: Endpoint) -> Address | None:
    """Return the address of a numeric host; None for a name."""
    try:
        return _look_up(endpoint, socket.AI_NUMERICHOST)[0]
    except OSError:
        return None


def _with_port(address: Address, port: int) -> Address:
    host, _, *rest = address.sockaddr
    return Address(address.family, (host, port, *rest))


def _look_up(endpoint: Endpoint, flags: int) -> list[Address]:
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))

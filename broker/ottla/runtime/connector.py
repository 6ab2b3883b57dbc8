"""`Connector`: outgoing connections until they are established: resolves names off the loop, tries every address.

After a time-out (`Connector.cancel`), the next attempt starts with the address after the one that did not respond.
Source: ClusterConnectionStates and ClientUtils of Apache Kafka (KIP-302, KIP-899).
"""

import errno
import fcntl
import os
import resource
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ottla.ports import ConnectionId
from ottla.quoting import describe_error
from ottla.runtime.link import set_tcp_option
from ottla.runtime.name_resolver import Address, NameResolver
from ottla.types import Endpoint

_DESCRIPTORS_MAX = 16 * 1024
"""Higher descriptors would need a larger kernel table, of 8 bytes each."""
_LIFTED_MAX = 256
_SILENCE = {"TCP_USER_TIMEOUT": 3_000, "TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
"""Milliseconds without an acknowledgement; seconds until an idle connection is probed, and probed again; probes."""


@dataclass(slots=True)
class _Attempt:
    """One connection that is being established."""

    connection: ConnectionId
    endpoint: Endpoint
    addresses: list[Address] = field(default_factory=list)
    next_index: int = 0
    sock: socket.socket | None = None
    was_connection_refused: bool = True
    """True until an address fails for another reason."""
    last_error: OSError | None = None


class Connector:
    """Outgoing connection attempts.

    Args of the constructor:
        post: runs a function on the loop soon; may be called from any thread.
        on_connected: takes over the connected, non-blocking socket.
        on_failed: receives the reason, and whether every address failed with "connection refused".
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        post: Callable[[Callable[[], None]], None],
        *,
        on_connected: Callable[[ConnectionId, socket.socket], None],
        on_failed: Callable[[ConnectionId, str, bool], None],
    ) -> None:
        self._selector = selector
        self.names = NameResolver(post)
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._attempts: dict[ConnectionId, _Attempt] = {}
        self._first_index: dict[Endpoint, int] = {}

    def connect(self, connection: ConnectionId, endpoint: Endpoint) -> None:
        """Start to connect; the outcome is reported from the loop, never before this returns."""
        attempt = self._attempts[connection] = _Attempt(connection, endpoint)
        self.names.resolve(endpoint, partial(self._on_resolved, attempt))

    def cancel(self, connection: ConnectionId) -> bool:
        """Abort an attempt without a report; return False if there is none (any more)."""
        attempt = self._attempts.pop(connection, None)
        if attempt is None:
            return False
        if attempt.sock is not None:
            self._release(attempt)
            self._first_index[attempt.endpoint] = attempt.next_index
        return True

    def close(self) -> None:
        for connection in list(self._attempts):
            self.cancel(connection)

    def _on_resolved(self, attempt: _Attempt, addresses: list[Address], error: OSError | None) -> None:
        if self._attempts.get(attempt.connection) is not attempt:
            return
        if not addresses:
            del self._attempts[attempt.connection]
            self._on_failed(attempt.connection, f"{attempt.endpoint.host} cannot be resolved: {error}", False)
            return
        first = self._first_index.get(attempt.endpoint, 0) % len(addresses)
        attempt.addresses = addresses[first:] + addresses[:first]
        self._try_next(attempt)

    def _try_next(self, attempt: _Attempt) -> None:
        """Connect to the next address; report a failure when there is none left."""
        while attempt.next_index < len(attempt.addresses):
            address = attempt.addresses[attempt.next_index]
            attempt.next_index += 1
            try:
                sock = socket.socket(address.family, socket.SOCK_STREAM)
            except OSError as error:
                self._failed_once(attempt, error)
                continue
            attempt.sock = sock
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_WRITE, partial(self._on_writable, attempt, sock))
            try:
                sock.connect(address.sockaddr)
            except BlockingIOError:
                return
            except OSError as error:
                self._release(attempt)
                self._failed_once(attempt, error)
                continue
            return
        del self._attempts[attempt.connection]
        last = attempt.last_error
        reason = (last.strerror or str(last)) if last is not None else "no address"
        self._on_failed(attempt.connection, reason, attempt.was_connection_refused)

    def _on_writable(self, attempt: _Attempt, sock: socket.socket, _: int) -> None:
        if attempt.sock is not sock:
            return  # cancelled in this iteration of the loop
        try:
            self._conclude(attempt, sock)
        except Exception as error:
            if attempt.sock is not None:
                self._release(attempt)
            if self._attempts.pop(attempt.connection, None) is not None:
                self._on_failed(attempt.connection, describe_error(error), False)

    def _conclude(self, attempt: _Attempt, sock: socket.socket) -> None:
        """Hand over an established connection, or try the next address."""
        error = _error_of(sock)
        if error is not None:
            self._release(attempt)
            self._failed_once(attempt, error)
            self._try_next(attempt)
            return
        self._selector.unregister(sock)
        attempt.sock = None
        del self._attempts[attempt.connection]
        self._first_index.pop(attempt.endpoint, None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _bound_silence(sock)
        self._on_connected(attempt.connection, _lift(sock))

    def _failed_once(self, attempt: _Attempt, error: OSError) -> None:
        attempt.last_error = error
        if error.errno != errno.ECONNREFUSED:
            attempt.was_connection_refused = False

    def _release(self, attempt: _Attempt) -> None:
        assert attempt.sock is not None
        self._selector.unregister(attempt.sock)
        attempt.sock.close()
        attempt.sock = None


def _bound_silence(sock: socket.socket) -> None:
    """Let the kernel end the connection if the peer's kernel acknowledges nothing for a few seconds.

    Packets that a network loses are sent again after ever longer times: a connection that nothing came through for 14
    seconds tries again after 12 more. A peer that is stopped or busy acknowledges still, so its connections stay open.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SILENCE.items():
        set_tcp_option(sock, name, value)


def _lift(sock: socket.socket) -> socket.socket:
    """Move a connection to another node above the descriptors of clients' connections, if one is free there.

    Linux closes the descriptors of a killed process from the highest down, and other processes may run in between:
    peers thus notice the end before clients do, which then request metadata from these peers.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = (_DESCRIPTORS_MAX if limit == resource.RLIM_INFINITY else min(limit, _DESCRIPTORS_MAX)) - _LIFTED_MAX
    if lowest <= 0:
        return sock
    try:
        lifted = socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest))
    except OSError:
        return sock  # every descriptor in that range is in use
    lifted.setblocking(False)
    sock.close()
    return lifted


def _error_of(sock: socket.socket) -> OSError | None:
    """Return the error of a failed connection attempt; None after success."""
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        return OSError(code, os.strerror(code))
    try:
        # An ephemeral port without a listener may be chosen as the source port too: TCP then connects it to itself.
        if sock.getsockname() == sock.getpeername():
            return ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    except OSError as error:
        return error
    return None

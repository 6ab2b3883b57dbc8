"""`NetworkFabric`: joins the simulated nodes: connections, bytes, closes and resets travel as events with a time.

Every attached `SimulatedNetwork` may connect to every endpoint with a listener, its own included. A connection keeps
its bytes in order and loses none while both ends live; when the receiver pauses reading they pile up, and the sender
is back-pressured, as with TCP. The end of a process closes its connections; an attempt without a listener fails with
connection refused. `NetworkConditions` decide how long data travels, and whether it arrives: if not, it is kept and
sent again when the conditions have changed (`release`), as TCP does.

A host may be frozen (SIGSTOP: its kernel still accepts connections and bytes, its process sees no events), or without
power: then attempts and data get no reply at all, not even a reset, and a peer with a connection detects its loss only
when the host is back. A frozen host may also be shut down (`runtime.stall_disconnect`): its connections end, and its
listeners accept no others until its process runs again.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ottla.ports import ConnectionId
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.event_queue import ArgumentsT, EventQueue
from ottla.types import Endpoint

_Action: TypeAlias = Callable[..., None]

QUEUED_SIZE_BYTES_MAX = 1024 * 1024
"""Above this a sender is back-pressured until half of it has been read."""


class Core(Protocol):
    """An owner of connections, such as `node.node.Node`."""

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint) -> bool: ...

    def connected(self, connection: ConnectionId) -> None: ...

    def receive_buffer(self, connection: ConnectionId) -> memoryview: ...

    def received(self, connection: ConnectionId, size_bytes: int) -> None: ...

    def drained(self, connection: ConnectionId) -> None: ...

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None: ...


class NetworkConditions:
    """Delays and cuts of the network. This one is fair: everything arrives, after ``travel_ms``."""

    def __init__(self, travel_ms: int = 1) -> None:
        self._travel_ms = travel_ms

    def travel_ms(self, source: str, target: str) -> int | None:
        """Return the delay of data sent now from ``source`` to ``target``, both hosts; None: not before `release`."""
        return self._travel_ms


class Socket:
    """One end of a connection. Bytes sent by ``other`` arrive in ``arrived`` and wait there to be read."""

    __slots__ = (
        "arrived",
        "connection",
        "core",
        "end_reason",
        "held_count",
        "host",
        "in_flight_bytes",
        "is_abandoned",
        "is_backpressured",
        "is_open",
        "is_read_from",
        "is_shut_down",
        "last_arrival_ms",
        "other",
    )

    def __init__(self, core: Core, host: str, connection: ConnectionId) -> None:
        self.core = core
        self.host = host
        self.connection = connection
        self.other: Socket | None = None
        self.arrived = bytearray()
        self.in_flight_bytes = 0
        """Sent from here and not read by the other end yet."""
        self.held_count = 0
        """Number of undelivered events for this end; what is sent behind them is not delivered either."""
        self.is_open = True
        self.is_abandoned = False
        self.is_shut_down = False
        self.is_read_from = True
        self.is_backpressured = False
        self.end_reason: str | None = None
        """Why the other end closed, once that has arrived behind all of its bytes."""
        self.last_arrival_ms = 0


class NetworkFabric:
    """See the module.

    Args of the constructor:
        events: queue of the fabric's events, which the simulation runs when they are due.
        on_touch: called with a host's name before anything reaches the process there.
        on_bytes: called with arriving bytes: source, target, bytes.
    """

    def __init__(
        self,
        clock: SimulatedClock,
        conditions: NetworkConditions | None = None,
        *,
        events: EventQueue | None = None,
        on_touch: Callable[[str], object] = lambda _: None,
        on_bytes: Callable[[str, str, bytes], object] = lambda *_: None,
    ) -> None:
        self.conditions = conditions or NetworkConditions()
        self.events = events or EventQueue(clock)
        self._clock = clock
        self._on_touch = on_touch
        self.on_bytes = on_bytes
        self._listeners: dict[Endpoint, tuple[Callable[[], ConnectionId], Callable[[Socket], None], Core, str]] = {}
        self._held: deque[tuple[str, str, Socket | None, _Action, tuple[Any, ...]]] = deque()
        self._frozen: dict[str, list[tuple[_Action, tuple[Any, ...]]]] = {}
        self._shut_down: dict[str, list[Endpoint]] = {}
        """By frozen host, its endpoints that accept no connections."""
        self._without_power: set[str] = set()
        self._sockets: dict[Socket, None] = {}
        """The connecting ends of all connections that may be open."""

    # --- time and network conditions

    def _travel(
        self,
        source: str,
        target: str,
        end: Socket | None,
        action: Callable[[*ArgumentsT], None],
        *arguments: *ArgumentsT,
    ) -> None:
        """Have the kernel of ``target`` do ``action``, for a connection's ``end`` behind all that was sent before."""
        travel_ms = self.conditions.travel_ms(source, target)
        if travel_ms is None or (end is not None and end.held_count > 0):
            self._hold(source, target, end, action, arguments)
            return
        arrival_ms = self._clock.now_ms + travel_ms
        if end is not None:
            before_ms = end.last_arrival_ms
            arrival_ms = end.last_arrival_ms = arrival_ms if arrival_ms > before_ms else before_ms
        self.events.at(arrival_ms, self._land, source, target, end, action, arguments)

    def _land(self, source: str, target: str, end: Socket | None, action: _Action, arguments: tuple[Any, ...]) -> None:
        if target in self._without_power:
            self._hold(source, target, end, action, arguments)
        else:
            action(*arguments)

    def _hold(self, source: str, target: str, end: Socket | None, action: _Action, arguments: tuple[Any, ...]) -> None:
        self._held.append((source, target, end, action, arguments))
        if end is not None:
            end.held_count += 1

    def _reach(self, host: str, action: Callable[[*ArgumentsT], None], *arguments: *ArgumentsT) -> None:
        """Let ``action`` happen to the process at ``host``, or wait until that runs again."""
        frozen = self._frozen.get(host)
        if frozen is not None:
            frozen.append((action, arguments))
            return
        self._on_touch(host)
        action(*arguments)

    def reach_later(
        self, host: str, delay_ms: int, action: Callable[[*ArgumentsT], None], *arguments: *ArgumentsT
    ) -> None:
        """Schedule ``action`` for the process at ``host``, such as a completion of its disk, if it runs then."""
        self.events.after(delay_ms, self._reach, host, action, *arguments)

    def release(self) -> None:
        """Send undelivered data again: the network conditions have changed."""
        held, self._held = self._held, deque()
        for _, _, end, _, _ in held:
            if end is not None:
                end.held_count = 0
        for source, target, end, action, arguments in held:
            self._travel(source, target, end, action, *arguments)

    def freeze(self, host: str) -> None:
        """Stop the process at ``host`` as SIGSTOP does."""
        self._frozen.setdefault(host, [])

    def shut_down(self, host: str) -> None:
        """Disconnect the frozen process at ``host``: its connections end, and connecting fails."""
        self._shut_down[host] = [endpoint for endpoint in self._listeners if endpoint.host == host]
        for socket in list(self._sockets):
            for end in (socket, socket.other):
                if end is not None and end.host == host and end.is_open:
                    self._shut_down_end(end)

    def _shut_down_end(self, end: Socket) -> None:
        end.is_shut_down = True
        end.end_reason = "shut down"
        self._reach(end.host, self._deliver, end)
        if end.other is not None:
            self._travel(end.host, end.other.host, end.other, self._end, end.other, "closed by the peer")

    def thaw(self, host: str) -> None:
        self._shut_down.pop(host, None)
        for action, arguments in self._frozen.pop(host, []):
            self._reach(host, action, *arguments)

    def cut_power(self, host: str) -> None:
        self._without_power.add(host)
        self._frozen.pop(host, None)
        self._shut_down.pop(host, None)

    def restore_power(self, host: str) -> None:
        self._without_power.discard(host)
        self.release()

    def reset_connections(self, chosen: Callable[[str, str], bool]) -> int:
        """Break the connections between hosts for which ``chosen`` is true; return the number."""
        broken = 0
        for socket in list(self._sockets):
            other = socket.other
            if not socket.is_open and (other is None or not other.is_open):
                del self._sockets[socket]
            elif other is not None and chosen(socket.host, other.host):
                broken += 1
                for end in (socket, other):
                    self.events.after(0, self._fail, end, "Connection reset by peer")
        return broken

    # --- listening and connecting

    def listen(
        self,
        endpoint: Endpoint,
        listener: str,
        core: Core,
        *,
        new_connection: Callable[[], ConnectionId],
        adopt: Callable[[Socket], None],
    ) -> None:
        """Accept connections at ``endpoint``.

        Args:
            endpoint: where.
            listener: the name of the node's listener.
            core: accepts or closes each connection, and receives its bytes.
            new_connection: returns the node's next connection id.
            adopt: registers the connection with the node's network.
        """
        self._listeners[endpoint] = (new_connection, adopt, core, listener)

    def stop_listening(self, core: Core) -> None:
        for endpoint in [each for each, (_, _, owner, _) in self._listeners.items() if owner is core]:
            del self._listeners[endpoint]

    def connect(self, socket: Socket, endpoint: Endpoint) -> None:
        """Connect ``socket`` to the listener at ``endpoint``; its core is notified of the outcome."""
        self._travel(socket.host, endpoint.host, None, self._accept_in_kernel, socket, endpoint)

    def _accept_in_kernel(self, socket: Socket, endpoint: Endpoint) -> None:
        """Accept or reset in the kernel of the target host, whether its process runs or is stopped."""
        if not socket.is_open:
            return
        found = self._listeners.get(endpoint)
        if found is None or endpoint in self._shut_down.get(endpoint.host, ()):
            self._travel(endpoint.host, socket.host, socket, self._reset, socket)
            return
        new_connection, adopt, core, listener = found
        accepted = Socket(core, endpoint.host, new_connection())
        accepted.other, socket.other = socket, accepted
        self._sockets[socket] = None
        adopt(accepted)
        self._travel(endpoint.host, socket.host, socket, self._come_up, socket)
        self._reach(endpoint.host, self._accept, accepted, listener, socket.host, endpoint)

    def _accept(self, accepted: Socket, listener: str, source: str, local_address: Endpoint) -> None:
        if accepted.is_open and not accepted.core.accepted(
            accepted.connection, listener=listener, peer=Endpoint(_address(source), 0), local_address=local_address
        ):
            self.close(accepted)

    def _come_up(self, socket: Socket) -> None:
        self._reach(socket.host, self._report_connected, socket)

    def _report_connected(self, socket: Socket) -> None:
        if socket.is_open:
            socket.core.connected(socket.connection)

    def _reset(self, socket: Socket) -> None:
        self._reach(socket.host, self._report_connection_refused, socket)

    def _report_connection_refused(self, socket: Socket) -> None:
        if socket.is_open:
            socket.is_open = False
            socket.core.closed(socket.connection, "Connection refused", was_connection_refused=True)

    def _fail(self, socket: Socket, reason: str) -> None:
        self._reach(socket.host, self._report_closed, socket, reason)

    def _report_closed(self, socket: Socket, reason: str) -> None:
        if socket.is_open:
            socket.is_open = False
            socket.core.closed(socket.connection, reason)

    # --- an open connection

    def send(self, socket: Socket, data: bytes) -> bool:
        """Send ``data``; return whether more may be sent at once."""
        target = socket.other
        if not socket.is_open or socket.is_shut_down or target is None:
            return True
        socket.in_flight_bytes += len(data)
        self._travel(socket.host, target.host, target, self._arrive, target, data)
        socket.is_backpressured = socket.in_flight_bytes > QUEUED_SIZE_BYTES_MAX
        return not socket.is_backpressured

    def close(self, socket: Socket, reason: str = "closed by the peer") -> None:
        """End the connection from this side, in order: the other end gets everything first."""
        if not socket.is_open:
            return
        socket.is_open = False
        target = socket.other
        if target is not None:
            self._travel(socket.host, target.host, target, self._end, target, reason)

    def abandon(self, socket: Socket) -> None:
        """End the connection as a power cut does: the other end is not notified, and detects it when it sends."""
        socket.is_open = False
        socket.is_abandoned = True

    def resume(self, socket: Socket) -> None:
        """Resume reading; bytes that have arrived are delivered from the next event on, not within this call."""
        if not socket.is_read_from:
            socket.is_read_from = True
            if socket.arrived or socket.end_reason is not None:
                self.reach_later(socket.host, 0, self._deliver, socket)

    def _arrive(self, socket: Socket, data: bytes) -> None:
        source = socket.other
        assert source is not None, "bytes come from somewhere"
        if socket.is_open and not socket.is_shut_down:
            self.on_bytes(source.host, socket.host, data)
            socket.arrived += data
            self._reach(socket.host, self._deliver, socket)
        elif socket.is_abandoned or socket.is_shut_down:
            self._travel(socket.host, source.host, source, self._fail, source, "Connection reset by peer")

    def _end(self, socket: Socket, reason: str) -> None:
        if socket.is_open:
            socket.end_reason = reason
            self._reach(socket.host, self._deliver, socket)

    def _deliver(self, socket: Socket) -> None:
        """Deliver arrived bytes while the node reads; the close comes behind them, or when the node does not read."""
        core = socket.core
        while socket.arrived and socket.is_read_from and socket.is_open:
            buffer = core.receive_buffer(socket.connection)
            arrived = socket.arrived[: len(buffer)]
            size = len(arrived)
            buffer[:size] = arrived
            del socket.arrived[:size]
            core.received(socket.connection, size)
            sender = socket.other
            if sender is not None:
                sender.in_flight_bytes -= size
                if sender.is_backpressured:
                    self._release_backpressure(sender)
        if socket.end_reason is not None and socket.is_open and not (socket.arrived and socket.is_read_from):
            self._fail(socket, socket.end_reason)

    def _release_backpressure(self, sender: Socket) -> None:
        """Release the sender's back-pressure once enough has been read."""
        if sender.in_flight_bytes <= QUEUED_SIZE_BYTES_MAX // 2 and sender.is_open:
            sender.is_backpressured = False
            self.reach_later(sender.host, 0, self._drain, sender)

    def _drain(self, socket: Socket) -> None:
        if socket.is_open:
            socket.core.drained(socket.connection)


def _address(host: str) -> str:
    """Return an address for a host name: connections are limited and logged by address."""
    digits = "".join(filter(str.isdigit, host)) or "0"
    return f"10.0.0.{int(digits) % 256}"

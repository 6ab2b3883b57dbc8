"""`Internet`: what joins the simulated nodes: connections, bytes, ends and refusals travel as events with a time.

Every `SimulatedNetwork` that is attached may dial every endpoint where another listens, and its own. A connection
keeps its bytes in order and loses none while both ends live; who pauses reading lets them pile up, and the sender is
told to wait, as TCP would have it. A process that ends takes its connections with it; where nobody listens, dialling
is refused. How long things take, and whether they get through, is for `Weather` to say.
"""

import heapq
from collections.abc import Callable
from typing import Protocol

from ottla.ports import Clock, ConnectionId
from ottla.types import Endpoint

QUEUED_SIZE_BYTES_MAX = 1024 * 1024
"""Above this a sender is told to wait until half of it has been read."""


class Core(Protocol):
    """What has connections: `server.node.Node`."""

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint) -> bool: ...

    def connected(self, connection: ConnectionId) -> None: ...

    def receive_buffer(self, connection: ConnectionId) -> memoryview: ...

    def received(self, connection: ConnectionId, size_bytes: int) -> None: ...

    def drained(self, connection: ConnectionId) -> None: ...

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None: ...


class Weather:
    """How the network is. This one is fair: everything arrives, after ``travel_ms``."""

    def __init__(self, travel_ms: int = 1) -> None:
        self._travel_ms = travel_ms

    def travel_ms(self, source: str, target: str) -> int | None:
        """Return how long what ``source`` sends now takes to ``target``, both host names; None: it never arrives."""
        return self._travel_ms


class Socket:
    """One end of a connection. Bytes sent by ``other`` arrive in ``arrived`` and wait there to be read."""

    __slots__ = (
        "arrived",
        "connection",
        "core",
        "end_reason",
        "host",
        "in_flight_bytes",
        "is_open",
        "is_read_from",
        "last_arrival_ms",
        "other",
        "told_to_wait",
    )

    def __init__(self, core: Core, host: str, connection: ConnectionId) -> None:
        self.core = core
        self.host = host
        self.connection = connection
        self.other: Socket | None = None
        self.arrived = bytearray()
        self.in_flight_bytes = 0
        """Sent from here and not read by the other end yet."""
        self.is_open = True
        self.is_read_from = True
        self.told_to_wait = False
        self.end_reason: str | None = None
        """Why the other end closed, once that has arrived behind all of its bytes."""
        self.last_arrival_ms = 0


class Internet:
    """See the module. The simulation calls `run_due` whenever the clock has moved."""

    def __init__(self, clock: Clock, weather: Weather | None = None) -> None:
        self.weather = weather or Weather()
        self._clock = clock
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._listeners: dict[Endpoint, tuple[Callable[[], ConnectionId], Callable[[Socket], None], Core, str]] = {}

    # --- time

    def next_event_ms(self) -> int | None:
        return self._events[0][0] if self._events else None

    def run_due(self) -> int:
        """Let everything happen whose time has come; return how many events that were."""
        now_ms = self._clock.monotonic_ms()
        count = 0
        while self._events and self._events[0][0] <= now_ms:
            heapq.heappop(self._events)[2]()
            count += 1
        return count

    def _at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time_ms, self._sequence, action))

    def _travel(self, source: Socket, target: Socket, action: Callable[[], None]) -> None:
        """Have ``action`` happen at ``target`` behind everything that ``source`` sent before."""
        travel_ms = self.weather.travel_ms(source.host, target.host)
        if travel_ms is None:
            return
        target.last_arrival_ms = max(target.last_arrival_ms, self._clock.monotonic_ms() + travel_ms)
        self._at(target.last_arrival_ms, action)

    # --- listening and dialling

    def listen(
        self,
        endpoint: Endpoint,
        listener: str,
        core: Core,
        *,
        new_connection: Callable[[], ConnectionId],
        adopt: Callable[[Socket], None],
    ) -> None:
        """Let others dial ``endpoint``.

        Args:
            endpoint: where.
            listener: the name of the node's listener.
            core: is asked to accept, and gets what comes.
            new_connection: makes the node's next connection id.
            adopt: makes the network know the connection.
        """
        self._listeners[endpoint] = (new_connection, adopt, core, listener)

    def stop_listening(self, core: Core) -> None:
        for endpoint in [each for each, (_, _, owner, _) in self._listeners.items() if owner is core]:
            del self._listeners[endpoint]

    def dial(self, socket: Socket, endpoint: Endpoint) -> None:
        """Connect ``socket`` to whoever listens at ``endpoint``; its core is told how that went."""
        there = self.weather.travel_ms(socket.host, endpoint.host)
        if there is not None:
            self._at(self._clock.monotonic_ms() + there, lambda: self._knock(socket, endpoint))

    def _knock(self, socket: Socket, endpoint: Endpoint) -> None:
        back = self.weather.travel_ms(endpoint.host, socket.host)
        if not socket.is_open or back is None:
            return
        back_ms = self._clock.monotonic_ms() + back
        found = self._listeners.get(endpoint)
        if found is None:
            self._at(back_ms, lambda: self._fail(socket, "Connection refused", was_refused=True))
            return
        new_connection, adopt, core, listener = found
        door = Socket(core, endpoint.host, new_connection())
        door.other, socket.other = socket, door
        adopt(door)
        self._at(back_ms, lambda: self._come_up(socket))
        socket.last_arrival_ms = back_ms
        if not core.accepted(
            door.connection, listener=listener, peer=Endpoint(_address(socket.host), 0), dialled=endpoint
        ):
            self.close(door)

    def _come_up(self, socket: Socket) -> None:
        if socket.is_open:
            socket.core.connected(socket.connection)

    def _fail(self, socket: Socket, reason: str, *, was_refused: bool = False) -> None:
        if socket.is_open:
            socket.is_open = False
            socket.core.closed(socket.connection, reason, was_refused=was_refused)

    # --- an open connection

    def send(self, socket: Socket, data: bytes) -> bool:
        """Send ``data``; return whether more may be sent at once."""
        target = socket.other
        if not socket.is_open or target is None:
            return True
        socket.in_flight_bytes += len(data)
        self._travel(socket, target, lambda: self._arrive(target, data))
        socket.told_to_wait = socket.in_flight_bytes > QUEUED_SIZE_BYTES_MAX
        return not socket.told_to_wait

    def close(self, socket: Socket, reason: str = "closed by the peer") -> None:
        """End the connection from this side, in order: the other end gets everything first."""
        if not socket.is_open:
            return
        socket.is_open = False
        target = socket.other
        if target is not None:
            self._travel(socket, target, lambda: self._end(target, reason))

    def resume(self, socket: Socket) -> None:
        """Read again; what has arrived meanwhile is delivered from the next event on, not within this call."""
        if not socket.is_read_from:
            socket.is_read_from = True
            self._at(self._clock.monotonic_ms(), lambda: self._deliver(socket))

    def _arrive(self, socket: Socket, data: bytes) -> None:
        if socket.is_open:
            socket.arrived += data
            self._deliver(socket)

    def _end(self, socket: Socket, reason: str) -> None:
        if socket.is_open:
            socket.end_reason = reason
            self._deliver(socket)

    def _deliver(self, socket: Socket) -> None:
        """Hand over what has arrived, for as long as the node reads; the end comes behind it."""
        core = socket.core
        while socket.arrived and socket.is_read_from and socket.is_open:
            buffer = core.receive_buffer(socket.connection)
            size = min(len(buffer), len(socket.arrived))
            buffer[:size] = socket.arrived[:size]
            del socket.arrived[:size]
            core.received(socket.connection, size)
            self._note_read(socket.other, size)
        if socket.end_reason is not None and socket.is_open and not socket.arrived:
            self._fail(socket, socket.end_reason)

    def _note_read(self, sender: Socket | None, size: int) -> None:
        if sender is None:
            return
        sender.in_flight_bytes -= size
        if sender.told_to_wait and sender.in_flight_bytes <= QUEUED_SIZE_BYTES_MAX // 2 and sender.is_open:
            sender.told_to_wait = False
            self._at(self._clock.monotonic_ms(), lambda: self._drain(sender))

    def _drain(self, socket: Socket) -> None:
        if socket.is_open:
            socket.core.drained(socket.connection)


def _address(host: str) -> str:
    """Return an address for a host name: connections are limited and logged by address."""
    digits = "".join(filter(str.isdigit, host)) or "0"
    return f"10.0.0.{int(digits) % 256}"

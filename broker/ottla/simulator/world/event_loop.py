"""An asyncio event loop in simulated time, over the simulated network: asyncio programs run in the simulation.

It is one process on one host. Coroutines run when they are due in the simulation, one after the other; `asyncio.sleep`
and timeouts wait for simulated time, and `asyncio.open_connection` connects to simulated nodes. `kill` ends the process
as kill -9 does: its connections break, and no code of its own has any effect from then on.
"""

import asyncio
import errno
import heapq
import os
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from ottla.ports import ConnectionId
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.network import SimulatedNetwork
from ottla.types import Endpoint

_BUFFER_SIZE_BYTES = 64 * 1024
_UNWINDING_ROUNDS_MAX = 20
_ORDERLY_END = "closed by the peer"
_ROUNDING_S = 1e-7

ResultT = TypeVar("ResultT")


class SimulatedTransport(asyncio.Transport):
    """One connection of the process; its loop calls the methods that `asyncio.Transport` does not have."""

    def __init__(self, loop: "SimulatedEventLoop", connection: ConnectionId, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.loop = loop
        self.connection = connection
        self.protocol = protocol
        self.is_up: asyncio.Future[None] = loop.create_future()
        self._is_closing = False
        self._is_paused = False

    # --- asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and not self.loop.network.send(self.connection, [bytes(data)]) and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self.loop.network.close_connection(self.connection)
            self.lose(None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self.loop.network.pause_reading(self.connection)

    def resume_reading(self) -> None:
        self.loop.network.resume_reading(self.connection)

    # --- called by its loop

    def come_up(self) -> None:
        self.protocol.connection_made(self)
        if not self.is_up.done():
            self.is_up.set_result(None)

    def resume_writing(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.protocol.resume_writing()

    def lose(self, error: OSError | None) -> None:
        """End the transport: the connection has ended, or was not established."""
        if self._is_closing:
            return
        self._is_closing = True
        self.loop.remove_connection(self.connection)
        if self.is_up.done():
            self.loop.call_soon(self.protocol.connection_lost, error)
        else:
            self.is_up.set_exception(error or ConnectionAbortedError())


class SimulatedEventLoop(asyncio.BaseEventLoop):
    """See the module. A new one at the same ``host`` is the successor of a killed process."""

    def __init__(self, cluster: Cluster, host: str) -> None:
        super().__init__()
        self.host = host
        self.cluster = cluster
        self.network = SimulatedNetwork(cluster.fabric, host)
        self.network.attach(self, [])
        self.is_dead = False
        self._soon: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._is_ticking = False
        self._processes: dict[asyncio.Task[Any], None] = {}
        self._transports: dict[ConnectionId, SimulatedTransport] = {}
        self._buffer = bytearray(_BUFFER_SIZE_BYTES)
        self._failure: BaseException | None = None
        cluster.add_client(host, self)

    def kill(self) -> None:
        """End the process; its coroutines unwind without effects."""
        self.is_dead = True
        self.network.vanish()
        for transport in list(self._transports.values()):
            transport.lose(ConnectionResetError(errno.ECONNRESET, "the process has ended"))
        for _ in range(_UNWINDING_ROUNDS_MAX):
            for task in list(self._processes):
                task.cancel()
            self._run_soon()
            if not self._processes:
                break
        assert not self._processes, f"these do not end when they are cancelled: {list(self._processes)}"
        self.close()

    # --- asyncio: time and tasks

    def time(self) -> float:
        return self.cluster.clock.monotonic_ms() / 1_000

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(handle)
        if not self._is_ticking and not self.is_dead:
            self.cluster.touch(self.host)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_ms = -int(-(when - _ROUNDING_S) * 1_000 // 1)
        self._timer_count += 1
        heapq.heappush(self._timers, (due_ms, self._timer_count, handle))
        if not self._is_ticking and not self.is_dead:
            self.cluster.touch(self.host)
        return handle

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, ResultT], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[ResultT]:
        task = super().create_task(coro, name=name, context=context)
        self._processes[task] = None
        task.add_done_callback(lambda task: self._processes.pop(task, None))
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an uncaught exception; `tick` raises it."""
        failure = context.get("exception") or RuntimeError(context["message"])
        if self._failure is None and not self.is_dead:
            self._failure = failure

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect to a simulated node.

        Raises:
            ConnectionRefusedError: nothing listens there.
            ConnectionResetError: the connection broke before it was up.
        """
        protocol = protocol_factory()
        connection = self.network.connect(Endpoint(host, port), "")
        transport = self._transports[connection] = SimulatedTransport(self, connection, protocol)
        try:
            await transport.is_up
        except asyncio.CancelledError:
            transport.close()
            raise
        return transport, protocol

    # --- called by the simulation

    def tick(self) -> None:
        """Run everything that is due.

        Raises:
            BaseException: an uncaught exception of a callback.
        """
        now_ms = self.cluster.clock.monotonic_ms()
        while self._timers and self._timers[0][0] <= now_ms:
            self._soon.append(heapq.heappop(self._timers)[2])
        self._run_soon()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def next_deadline_ms(self) -> int | None:
        if self._soon:
            return self.cluster.clock.monotonic_ms()
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _run_soon(self) -> None:
        if not self._soon:
            return
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._is_ticking = True
        try:
            while self._soon:
                handle = self._soon.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            self._is_ticking = False
            asyncio._set_running_loop(before)

    # --- called by the network fabric

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint) -> bool:
        return False

    def connected(self, connection: ConnectionId) -> None:
        if connection in self._transports:
            self._transports[connection].come_up()

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return memoryview(self._buffer)

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        if connection in self._transports:
            self._transports[connection].protocol.data_received(bytes(self._buffer[:size_bytes]))

    def drained(self, connection: ConnectionId) -> None:
        if connection in self._transports:
            self._transports[connection].resume_writing()

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        transport = self._transports.get(connection)
        if transport is None:
            return
        error: OSError | None = None
        if was_connection_refused:
            error = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        elif reason != _ORDERLY_END:
            error = ConnectionResetError(errno.ECONNRESET, reason)
        transport.lose(error)

    def remove_connection(self, connection: ConnectionId) -> None:
        """Drop further events of the connection."""
        self._transports.pop(connection, None)

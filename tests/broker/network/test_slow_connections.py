"""Connections that hold memory which others wait for must make progress; both sides of the time limit."""

import pytest

from ottla.network.buffer_pool import BufferPool
from ottla.network.connection import Connection
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.request_memory import RequestMemory
from ottla.network.slow_connections import SlowConnections
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.single_node import anonymous_client

MIB = 1024 * 1024


class Holder:
    """A connection in the middle of a frame of 1 MiB, or with a pending request and bytes behind it."""

    def __init__(self, *, is_blocked: bool = False) -> None:
        self.connection = Connection(
            anonymous_client(),
            scratch=memoryview(bytearray(256 * 1024)),
            pool=BufferPool(),
            memory=RequestMemory(
                limit_bytes=256 * MIB, read_bytes_max=256 * 1024, on_wait=lambda _: None, on_granted=lambda _: None
            ),
            frame_size_bytes_max=100 * MIB,
            on_frame=self.on_frame,
            scheduler=FairScheduler(SimulatedClock(), on_slice=lambda connection: None),
            now_ms=0,
        )
        self.blocks = is_blocked
        if is_blocked:
            self.send(b"\0\0\0\4last" + b"\0\0\0\4next")
        else:
            self.send(MIB.to_bytes(4, "big") + b"begun")

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        connection.is_blocked = self.blocks

    def send(self, data: bytes) -> None:
        while data:
            buffer = self.connection.receive_buffer()
            piece, data = data[: len(buffer)], data[len(buffer) :]
            buffer[: len(piece)] = piece
            self.connection.received(len(piece))


def found(slow_connections: SlowConnections, holder: Holder, now_ms: int) -> list[Connection]:
    return [connection for connection, _ in slow_connections.find([holder.connection], now_ms)]


@pytest.mark.parametrize(
    ("is_blocked", "interval_ms"),
    [pytest.param(False, 10_000, id="in-a-frame"), pytest.param(True, 60_000, id="behind-a-request-in-hand")],
)
def test_connection_without_progress_is_slow_after_its_interval(is_blocked: bool, interval_ms: int) -> None:
    slow_connections, holder = SlowConnections(), Holder(is_blocked=is_blocked)
    assert found(slow_connections, holder, 1_000) == []

    assert found(slow_connections, holder, 1_000 + interval_ms - 1) == []
    assert found(slow_connections, holder, 1_000 + interval_ms) == [holder.connection]


@pytest.mark.parametrize(
    ("size_bytes", "is_slow"), [pytest.param(65_535, True, id="too-few"), pytest.param(65_536, False, id="enough")]
)
def test_partial_frame_must_receive_64_kib(size_bytes: int, is_slow: bool) -> None:
    slow_connections, holder = SlowConnections(), Holder()
    found(slow_connections, holder, 0)

    holder.send(b"x" * size_bytes)

    assert found(slow_connections, holder, 10_000) == ([holder.connection] if is_slow else [])


def test_another_frame_is_progress() -> None:
    slow_connections, holder = SlowConnections(), Holder()
    found(slow_connections, holder, 0)

    holder.send(b"x" * (MIB - len(b"begun")) + MIB.to_bytes(4, "big") + b"begun")

    assert found(slow_connections, holder, 10_000) == []
    assert found(slow_connections, holder, 20_000) == [holder.connection]


def test_response_to_a_request_is_progress() -> None:
    slow_connections, holder = SlowConnections(), Holder(is_blocked=True)
    found(slow_connections, holder, 0)

    holder.blocks = holder.connection.is_blocked = False
    holder.connection.resume()
    holder.send(b"\0\0\0\4n")

    assert found(slow_connections, holder, 60_000) == []


def test_time_before_a_frame_waited_does_not_count() -> None:
    slow_connections, holder = SlowConnections(), Holder()
    found(slow_connections, holder, 0)

    slow_connections.reset()

    assert found(slow_connections, holder, 10_000) == []


def test_reason_names_held_and_received_bytes() -> None:
    slow_connections, holder = SlowConnections(), Holder()
    slow_connections.find([holder.connection], 0)
    holder.send(b"xyz")

    [(_, reason)] = slow_connections.find([holder.connection], 10_000)

    assert reason == "its frame holds 1048576 bytes and received 3 in 10000 ms while others wait for memory"

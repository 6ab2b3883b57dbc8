"""Connections with pipelined requests are served round-robin, for a part of a millisecond at a time."""

import pytest

from ottla.network.buffer_pool import BufferPool
from ottla.network.connection import Connection
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.request_memory import NO_LIMIT_BYTES, RequestMemory
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.single_node import anonymous_client


class Line:
    """Three waiting connections, and those that were served."""

    def __init__(self, *, cost_ms: int, waits_again: bool = False) -> None:
        self.clock = SimulatedClock()
        self.cost_ms = cost_ms
        self.waits_again = waits_again
        self.served: list[int] = []
        self.scheduler = FairScheduler(self.clock, on_slice=self.on_slice)
        memory: RequestMemory[Connection] = RequestMemory(
            limit_bytes=NO_LIMIT_BYTES, read_bytes_max=1, on_wait=lambda _: None, on_granted=lambda _: None
        )
        self.connections = [
            Connection(
                anonymous_client(),
                scratch=memoryview(bytearray(8)),
                pool=BufferPool(),
                memory=memory,
                frame_size_bytes_max=8,
                on_frame=lambda connection, frame: None,
                scheduler=self.scheduler,
                now_ms=0,
            )
            for _ in range(3)
        ]
        for connection in self.connections:
            self.scheduler.enqueue(connection)

    def on_slice(self, connection: Connection) -> None:
        self.served.append(self.connections.index(connection))
        self.clock.advance(self.cost_ms)
        if self.waits_again:
            self.scheduler.enqueue(connection)


@pytest.mark.parametrize(
    ("cost_ms", "served"), [(0, [0, 1, 2]), (1, [0]), (50, [0])], ids=["quick", "a-millisecond-each", "longer"]
)
def test_slices_run_until_the_time_is_used_up_and_at_least_one(cost_ms: int, served: list[int]) -> None:
    line = Line(cost_ms=cost_ms)
    line.scheduler.run_slices()

    assert line.served == served
    assert bool(line.scheduler) == (len(served) < 3)
    assert [it.awaits_slice for it in line.connections] == [index not in served for index in range(3)]


def test_requeued_connection_comes_last_and_has_one_slice_per_round() -> None:
    line = Line(cost_ms=0, waits_again=True)
    line.scheduler.run_slices()
    assert line.served == [0, 1, 2]
    line.cost_ms = 1
    for _ in range(4):
        line.scheduler.run_slices()

    assert line.served[3:] == [0, 1, 2, 0]

"""Links with more work than a time slice are served behind the others, round-robin."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from ottla.ports import ConnectionId
from ottla.runtime.deferred_links import DeferredLinks
from ottla.runtime.link import Link
from ottla.simulator.world.clock import SimulatedClock

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Line:
    """Three links; serving one takes ``cost_ms``, after which it may have more work."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.cost_ms = 0
        self.has_more = False
        self.served: list[tuple[int, int]] = []
        self.deferred = DeferredLinks(self.clock, self._on_slice)
        self.sock = socket.socket()
        self.links = [Link(ConnectionId(number), self.sock) for number in range(3)]

    def _on_slice(self, link: Link, events: int) -> None:
        self.served.append((link.id, events))
        self.clock.advance(self.cost_ms)
        if self.has_more:
            self.deferred.add(link, READ)


@pytest.fixture
def line() -> Iterator[Line]:
    created = Line()
    yield created
    created.sock.close()


@pytest.mark.parametrize(("cost_ms", "count"), [(0, 3), (1, 1)], ids=["quick", "longer-than-the-slice"])
def test_links_are_served_until_slice_is_used_up_and_at_least_one(line: Line, cost_ms: int, count: int) -> None:
    line.cost_ms = cost_ms
    for link in line.links:
        line.deferred.add(link, READ)
    line.deferred.serve_slice()

    assert line.served == [(number, READ) for number in range(count)]
    assert [link.id for link in line.deferred.links] == list(range(count, 3))


def test_link_is_queued_once_with_all_deferred_events(line: Line) -> None:
    first, second, _ = line.links
    line.deferred.add(first, READ)
    line.deferred.add(second, READ)
    line.deferred.add(first, WRITE)
    line.deferred.serve_slice()

    assert line.served == [(0, READ | WRITE), (1, READ)]
    assert [link.deferred_events for link in line.links] == [0, 0, 0]


def test_link_with_more_work_is_requeued_last_and_served_once_per_slice(line: Line) -> None:
    line.has_more = True
    for link in line.links:
        line.deferred.add(link, READ)
    line.deferred.serve_slice()
    assert [number for number, _ in line.served] == [0, 1, 2]
    line.cost_ms = 1
    for _ in range(4):
        line.deferred.serve_slice()

    assert [number for number, _ in line.served[3:]] == [0, 1, 2, 0]

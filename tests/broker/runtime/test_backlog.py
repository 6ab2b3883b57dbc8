"""Whoever has more at hand than a turn has room for goes on behind the others, one link after the other."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from ottla.ports import ConnectionId
from ottla.runtime.backlog import Backlog
from ottla.runtime.link import Link
from ottla.simulator.world.clock import SimulatedClock

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Line:
    """Three links, of which each turn takes so long, and which may have more at hand then."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.cost_ms = 0
        self.has_more = False
        self.gone_on: list[tuple[int, int]] = []
        self.backlog = Backlog(self.clock, self._on_turn)
        self.sock = socket.socket()
        self.links = [Link(ConnectionId(number), self.sock) for number in range(3)]

    def _on_turn(self, link: Link, events: int) -> None:
        self.gone_on.append((link.id, events))
        self.clock.advance(self.cost_ms)
        if self.has_more:
            self.backlog.add(link, READ)


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.sock.close()


@pytest.mark.parametrize(("cost_ms", "count"), [(0, 3), (1, 1)], ids=["quick", "longer-than-the-share"])
def test_links_go_on_until_the_share_is_used_up_and_at_least_one(line: Line, cost_ms: int, count: int) -> None:
    line.cost_ms = cost_ms
    for link in line.links:
        line.backlog.add(link, READ)
    line.backlog.turn()

    assert line.gone_on == [(number, READ) for number in range(count)]
    assert [link.id for link in line.backlog.links] == list(range(count, 3))


def test_a_link_waits_once_with_everything_that_it_was_put_off_with(line: Line) -> None:
    first, second, _ = line.links
    line.backlog.add(first, READ)
    line.backlog.add(second, READ)
    line.backlog.add(first, WRITE)
    line.backlog.turn()

    assert line.gone_on == [(0, READ | WRITE), (1, READ)]
    assert [link.events_put_off for link in line.links] == [0, 0, 0]


def test_who_has_more_again_comes_behind_the_others_and_once_in_a_turn(line: Line) -> None:
    line.has_more = True
    for link in line.links:
        line.backlog.add(link, READ)
    line.backlog.turn()
    assert [number for number, _ in line.gone_on] == [0, 1, 2]
    line.cost_ms = 1
    for _ in range(4):
        line.backlog.turn()

    assert [number for number, _ in line.gone_on[3:]] == [0, 1, 2, 0]

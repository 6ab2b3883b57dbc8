"""Which connections a loop iteration serves first, and how many of them."""

import selectors
import socket
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from ottla.runtime.link import Link
from ottla.runtime.ready_connections import EACH_NS, FEW, GROUP_NS, ITERATION_NS, ReadyConnections
from ottla.runtime.response_group import ResponseGroup


class Loop:
    """Connections whose requests take ``request_ns`` each."""

    def __init__(self, request_ns: int) -> None:
        self.request_ns = request_ns
        self.now_ns = 0
        self.served: list[int] = []
        self.defects: list[tuple[Any, Exception]] = []
        self.sent: list[tuple[int, int]] = []
        """By response: its connection, and how many requests of the iteration had been served when it was sent."""
        self.broken: set[int] = set()
        self.failed: list[int] = []
        self.responses = ResponseGroup(self._flush, lambda link, _: self.failed.append(link.id))
        self.ready = ReadyConnections(self, lambda *defect: self.defects.append(defect), self.responses)

    def monotonic_ms(self) -> int:
        return self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return self.monotonic_ms()

    def _serve_one(self, descriptor: int, events: int) -> None:
        self.now_ns += self.request_ns
        self.served.append(descriptor)
        if self.responses.is_open:
            self.responses.add(Link(descriptor, socket.socket()))
        else:
            self.sent.append((descriptor, len(self.served)))
        if events == selectors.EVENT_WRITE:
            raise ValueError(descriptor)

    def _flush(self, link: Link) -> None:
        link.sock.close()
        self.sent.append((link.id, len(self.served)))
        if link.id in self.broken:
            raise ValueError(link.id)

    def run_iteration(self, descriptors: Iterable[int], events: int = selectors.EVENT_READ) -> list[int]:
        """Report these as ready; return which were served, in order."""
        self.served, self.sent = [], []
        callbacks = [(each, partial(self._serve_one, each)) for each in descriptors]
        self.ready.serve([(selectors.SelectorKey(each, each, events, call), events) for each, call in callbacks])
        return self.served


def test_connection_with_one_request_now_and_then_is_served_before_busy_ones() -> None:
    loop, busy = Loop(request_ns=100_000), list(range(10))
    loop.run_iteration([99, *busy])
    for _ in range(3):
        loop.run_iteration(busy)

    assert loop.run_iteration([*busy, 99])[0] == 99


def test_iteration_ends_when_its_time_is_used_up() -> None:
    loop = Loop(request_ns=(ITERATION_NS + 10 * EACH_NS) // 3)

    assert len(loop.run_iteration(range(10))) == 3
    assert len(loop.run_iteration(range(1_000))) == 102


def test_connections_that_are_always_ready_have_equal_shares() -> None:
    loop, busy = Loop(request_ns=250_000), list(range(10))

    served = [descriptor for _ in range(20) for descriptor in loop.run_iteration(busy)]

    counts = [served.count(each) for each in busy]
    assert max(counts) - min(counts) <= 1 < min(counts)


def test_new_connections_do_not_overtake_the_ones_that_wait() -> None:
    loop = Loop(request_ns=ITERATION_NS // 2)
    loop.run_iteration(range(5))
    left = [each for each in range(5) if each not in loop.served]

    assert loop.run_iteration([100, 101, *range(5)])[: len(left)] == left


def test_few_connections_are_served_in_order_of_arrival() -> None:
    loop = Loop(request_ns=10_000_000)

    assert loop.run_iteration(range(FEW, 0, -1)) == list(range(FEW, 0, -1))


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_defect_of_one_connection_leaves_the_others_served(count: int) -> None:
    loop = Loop(request_ns=1)

    served = loop.run_iteration(range(count), events=selectors.EVENT_WRITE)

    assert served == list(range(count))
    assert [error.args for _, error in loop.defects] == [(each,) for each in range(count)]


def test_responses_to_quick_requests_leave_in_groups() -> None:
    loop = Loop(request_ns=GROUP_NS // 4)

    loop.run_iteration(range(6))

    assert loop.sent == [*((each, 4) for each in range(4)), (4, 6), (5, 6)]


@pytest.mark.parametrize(("request_ns", "count"), [(GROUP_NS, FEW + 1), (1, FEW)], ids=["slow-requests", "few-ready"])
def test_responses_to_slow_requests_and_of_few_connections_leave_at_once(request_ns: int, count: int) -> None:
    loop = Loop(request_ns)

    served = loop.run_iteration(range(count))

    assert loop.sent == [(each, each + 1) for each in served]


def test_response_that_cannot_be_sent_leaves_the_others_of_its_group() -> None:
    loop = Loop(request_ns=1)
    loop.broken = {1}

    loop.run_iteration(range(FEW + 1), events=selectors.EVENT_WRITE)

    assert [each for each, _ in loop.sent] == list(range(FEW + 1))
    assert loop.failed == [1]
    assert not loop.responses.is_open

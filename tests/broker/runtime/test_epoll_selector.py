"""The loop's own selector reports the same events as the standard library's."""

import select
import selectors
import socket
from collections.abc import Callable, Iterator

import pytest

from ottla.runtime.epoll_selector import EpollSelector, new_selector

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll on this system")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
BOTH = READ | WRITE


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def hang_up(one: socket.socket, other: socket.socket) -> None:
    """Close both directions: the system reports a hang-up on ``one``."""
    other.close()


def write_then_hang_up(one: socket.socket, other: socket.socket) -> None:
    other.send(b"x")
    other.close()


@pytest.mark.parametrize("events", [READ, WRITE, BOTH], ids=["read", "write", "both"])
@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda one, other: None, id="nothing"),
        pytest.param(lambda one, other: other.send(b"x"), id="bytes"),
        pytest.param(lambda one, other: other.shutdown(socket.SHUT_WR), id="half-closed"),
        pytest.param(hang_up, id="hang-up"),
        pytest.param(write_then_hang_up, id="bytes-and-hang-up"),
    ],
)
def test_ready_events_equal_those_of_the_standard_library(
    pair: tuple[socket.socket, socket.socket], events: int, happens: Callable[[socket.socket, socket.socket], None]
) -> None:
    own, standard = EpollSelector(), selectors.EpollSelector()
    for selector in (own, standard):
        selector.register(pair[0], events, "data")
    happens(*pair)

    assert own.select(0) == standard.select(0)
    own.close()
    standard.close()


def test_modified_events_apply_and_unregistered_sockets_report_none(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    selector = EpollSelector()
    pair[1].send(b"x")
    selector.register(pair[0], READ, "first")
    selector.modify(pair[0], WRITE, "second")

    assert [(key.data, events) for key, events in selector.select(0)] == [("second", WRITE)]
    assert selector.get_key(pair[0].fileno()).events == WRITE
    assert selector.unregister(pair[0]).data == "second"
    assert selector.select(0) == []
    assert not selector.get_map()
    selector.close()


def test_without_a_timeout_it_waits_for_the_first_event(pair: tuple[socket.socket, socket.socket]) -> None:
    selector = new_selector()
    selector.register(pair[0].fileno(), READ)
    pair[1].send(b"x")

    assert [key.fd for key, _ in selector.select()] == [pair[0].fileno()]
    assert [key.fd for key, _ in selector.select(-1)] == [pair[0].fileno()]
    selector.close()


def test_events_beyond_the_maximum_come_in_the_next_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.runtime.epoll_selector._EVENTS_MAX", 2)
    selector = EpollSelector()
    pairs = [socket.socketpair() for _ in range(5)]
    for one, other in pairs:
        selector.register(one, READ, one)
        other.send(b"x")
    seen = set()
    for _ in range(3):
        for key, _ in selector.select(0):
            seen.add(key.fd)
            key.data.recv(1)

    assert seen == {one.fileno() for one, _ in pairs}
    selector.close()
    for one, other in pairs:
        one.close()
        other.close()

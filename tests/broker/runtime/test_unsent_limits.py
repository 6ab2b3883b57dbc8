"""Unread responses are bounded in memory over all connections, and in time for each."""

import socket
from collections.abc import Iterator

import pytest

from ottla.metrics.network import NetworkMetrics
from ottla.runtime.link import Link, SocketOptions
from ottla.runtime.unsent_limits import UnsentLimits
from ottla.simulator.world.clock import SimulatedClock

LIMIT_BYTES = 1_000
IDLE_MS = 60_000


class Peers:
    """Links with queued bytes, and those that were closed."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.metrics = NetworkMetrics()
        self.given_up: list[int] = []
        options = SocketOptions(unread_bytes_max=LIMIT_BYTES, idle_ms_max=IDLE_MS)
        self.limits = UnsentLimits(self.clock, options, self.metrics, self._give_up)
        self._sockets: list[socket.socket] = []

    def link(self, number: int, queued_bytes: int, *, file_bytes: int = 0) -> Link:
        sock = socket.socket()
        self._sockets.append(sock)
        link = Link(number, sock)
        self.queue(link, queued_bytes, file_bytes=file_bytes)
        return link

    def queue(self, link: Link, queued_bytes: int, *, file_bytes: int = 0, has_moved: bool = False) -> None:
        """Set the number of bytes queued for the link's peer."""
        link.outbox.clear()
        if queued_bytes:
            link.outbox.append(b"some")
        link.outbox_bytes, link.file_bytes = queued_bytes, file_bytes
        self.limits.update(link, has_moved=has_moved)

    def _give_up(self, link: Link, reason: str) -> None:
        assert "its peer has read none of its" in reason
        self.given_up.append(link.id)
        self.limits.remove(link)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def peers() -> Iterator[Peers]:
    made = Peers()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("last_bytes", "given_up"), [pytest.param(500, [], id="at-the-bound"), pytest.param(501, [1], id="a-byte-more")]
)
def test_longest_silent_peer_is_closed_above_the_memory_bound(
    peers: Peers, last_bytes: int, given_up: list[int]
) -> None:
    peers.link(1, 300)
    peers.clock.advance(1)
    peers.link(2, 200)
    peers.clock.advance(1)
    peers.link(3, last_bytes)
    peers.limits.enforce()

    assert peers.given_up == given_up
    assert peers.metrics.unread_bytes == 500 + last_bytes - 300 * len(given_up)
    assert peers.metrics.closed_unread == ({"memory": 1} if given_up else {})


def test_peer_that_reads_a_little_is_not_closed_first(peers: Peers) -> None:
    first = peers.link(1, 300)
    peers.clock.advance(1)
    peers.link(2, 300)
    peers.clock.advance(1)
    peers.queue(first, 299, has_moved=True)
    peers.link(3, 500)
    peers.limits.enforce()

    assert peers.given_up == [2]


def test_more_queued_responses_do_not_renew_a_peer(peers: Peers) -> None:
    first = peers.link(1, 300)
    peers.link(2, 300)
    peers.queue(first, 800)
    peers.limits.enforce()

    assert peers.given_up == [1]


@pytest.mark.parametrize("memory_bytes", [0, 1, 16 * 1024 - 1])
def test_peer_with_little_memory_is_not_closed_for_others(peers: Peers, memory_bytes: int) -> None:
    peers.link(1, (1 << 30) + memory_bytes, file_bytes=1 << 30)
    peers.clock.advance(1)
    peers.link(2, 16 * 1024)
    peers.link(3, 16 * 1024)
    peers.limits.enforce()

    assert peers.given_up[:2] == [2, 3]
    assert peers.given_up[2:] == ([1] if memory_bytes > LIMIT_BYTES else [])


def test_bytes_of_files_take_no_memory(peers: Peers) -> None:
    peers.link(1, 1 << 30, file_bytes=(1 << 30) - 100)
    peers.limits.enforce()

    assert (peers.given_up, peers.metrics.unread_bytes) == ([], 100)


@pytest.mark.parametrize("file_bytes", [0, 10], ids=["in-memory", "of-a-file"])
@pytest.mark.parametrize(
    ("waited_ms", "given_up"), [(IDLE_MS - 1, []), (IDLE_MS, [1])], ids=["just-in-time", "too-long"]
)
def test_peer_that_reads_nothing_for_max_idle_is_closed(
    peers: Peers, waited_ms: int, given_up: list[int], file_bytes: int
) -> None:
    peers.link(1, 10, file_bytes=file_bytes)
    assert peers.limits.next_deadline_ms() == IDLE_MS
    peers.clock.advance(waited_ms)
    peers.limits.enforce()

    assert peers.given_up == given_up
    assert peers.metrics.closed_unread == ({"idle": 1} if given_up else {})


def test_peer_that_has_read_everything_is_removed(peers: Peers) -> None:
    link = peers.link(1, 10)
    assert peers.limits.links
    peers.queue(link, 0, has_moved=True)

    assert not peers.limits.links
    assert peers.limits.next_deadline_ms() is None
    assert peers.metrics.unread_bytes == 0


def test_peers_are_closed_some_per_iteration_with_one_line_a_second(
    peers: Peers, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        peers.link(number, 100)
    counts = []
    while not counts or counts[-1] < 90:
        peers.limits.enforce()
        counts.append(len(peers.given_up))

    assert counts == [32, 64, 90]
    assert len(caplog.messages) == 1
    assert "none of its 100 bytes of responses for 0 ms" in caplog.messages[0]
    assert f"more than {LIMIT_BYTES} bytes" in caplog.messages[0]
    assert "(1 closed so far)" in caplog.messages[0]

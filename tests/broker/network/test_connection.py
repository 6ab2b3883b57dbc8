"""A connection returns the frames that were sent, however the network splits them."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.network.buffer_pool import BufferPool
from ottla.network.connection import Connection
from ottla.network.fair_scheduler import FairScheduler
from ottla.network.request_memory import NO_LIMIT_BYTES, RequestMemory
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.single_node import anonymous_client

SCRATCH_BYTES = 256
LIMIT_BYTES = 200_000

FRAMES = st.lists(
    st.integers(4, 40)
    | st.sampled_from(
        [4, 122, 123, 124, 125, 126, 250, 252, 253, 256, 257, 1_000, 65_535, 65_536, 65_537, LIMIT_BYTES]
    ),
    max_size=8,
).map(lambda sizes: [bytes([index + 1]) * size for index, size in enumerate(sizes)])


def request_memory(limit_bytes: int) -> RequestMemory[Connection]:
    return RequestMemory(
        limit_bytes=limit_bytes,
        read_bytes_max=SCRATCH_BYTES,
        on_wait=lambda connection: None,
        on_granted=lambda connection: connection.memory_granted(),
    )


class Peer:
    """Writer of a stream of frames in pieces, which records the frames that the connection returns."""

    def __init__(
        self,
        frames: list[bytes],
        *,
        scratch: memoryview | None = None,
        memory: RequestMemory[Connection] | None = None,
        scheduler: FairScheduler | None = None,
    ) -> None:
        self.stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        self.sent = 0
        self.seen: list[bytes] = []
        self.block_on: set[int] = set()
        self.close_on: set[int] = set()
        self.take_time: Callable[[], object] = lambda: None
        """Called for each frame."""
        self.connection = Connection(
            anonymous_client(),
            scratch=scratch if scratch is not None else memoryview(bytearray(SCRATCH_BYTES)),
            pool=BufferPool(),
            memory=memory if memory is not None else request_memory(NO_LIMIT_BYTES),
            frame_size_bytes_max=LIMIT_BYTES,
            on_frame=self.on_frame,
            scheduler=FairScheduler(SimulatedClock(), on_slice=lambda connection: None)
            if scheduler is None
            else scheduler,
            now_ms=0,
        )

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        self.seen.append(bytes(frame))
        self.take_time()
        if len(self.seen) in self.block_on:
            connection.is_blocked = True
        if len(self.seen) in self.close_on:
            connection.close()

    @property
    def is_done(self) -> bool:
        return self.sent == len(self.stream)

    def send(self, size_bytes: int) -> None:
        """Deliver at most ``size_bytes``, as one read."""
        buffer = self.connection.receive_buffer()
        assert len(buffer) > 0
        piece = self.stream[self.sent : self.sent + min(size_bytes, len(buffer))]
        buffer[: len(piece)] = piece
        self.sent += len(piece)
        self.connection.received(len(piece))

    def resume(self) -> None:
        self.connection.is_blocked = False
        self.connection.resume()


PIECES = st.lists(st.integers(1, 300) | st.sampled_from([1, 3, 4, 5, 70_000, LIMIT_BYTES]), min_size=1, max_size=20)


@settings(max_examples=300)
@given(frames=FRAMES, pieces=PIECES)
def test_any_split_of_the_stream_gives_the_same_frames(frames: list[bytes], pieces: list[int]) -> None:
    peer = Peer(frames)

    turn = 0
    while not peer.is_done:
        peer.send(pieces[turn % len(pieces)])
        turn += 1

    assert peer.seen == frames


@settings(max_examples=300)
@given(frames=FRAMES, pieces=PIECES, block_on=st.sets(st.integers(1, 8)))
def test_blocked_connection_returns_no_frame_until_resumed(
    frames: list[bytes], pieces: list[int], block_on: set[int]
) -> None:
    peer = Peer(frames)
    peer.block_on = block_on

    turn = 0
    while not peer.is_done or peer.connection.is_blocked:
        if peer.connection.is_blocked:
            seen = len(peer.seen)
            assert seen in block_on
            peer.resume()
            assert len(peer.seen) >= seen
        else:
            peer.send(pieces[turn % len(pieces)])
            turn += 1

    assert peer.seen == frames


@settings(max_examples=200)
@given(frames=st.tuples(FRAMES, FRAMES), order=st.lists(st.tuples(st.booleans(), st.integers(1, 300)), max_size=60))
def test_connections_that_share_the_scratch_buffer_do_not_mix(
    frames: tuple[list[bytes], list[bytes]], order: list[tuple[bool, int]]
) -> None:
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    peers = [Peer(frames[0], scratch=scratch), Peer(frames[1], scratch=scratch)]

    for which, size_bytes in order:
        peers[which].send(size_bytes)
    for peer in peers:
        while not peer.is_done:
            peer.send(LIMIT_BYTES)

    assert (peers[0].seen, peers[1].seen) == frames


def test_frames_of_one_read_wait_while_the_first_is_in_progress() -> None:
    peer = Peer([b"first", b"second", b"third"])
    peer.block_on = {1, 2}

    peer.send(SCRATCH_BYTES)
    assert peer.seen == [b"first"]
    peer.resume()
    assert peer.seen == [b"first", b"second"]
    peer.resume()
    assert peer.seen == [b"first", b"second", b"third"]


@pytest.mark.parametrize(
    ("count", "seen"), [pytest.param(32, 32, id="as-many-as-a-slice-has"), pytest.param(33, 32, id="one-more")]
)
def test_frames_of_one_read_beyond_a_slice_wait_for_the_next(count: int, seen: int) -> None:
    peer = Peer([b"four"] * count, scratch=memoryview(bytearray(4_096)))

    peer.send(4_096)

    assert (len(peer.seen), peer.connection.awaits_slice) == (seen, seen < count)
    assert peer.connection.is_blocked == (seen < count)
    peer.connection.awaits_slice = False
    peer.resume()
    assert (len(peer.seen), peer.connection.awaits_slice) == (count, False)


@pytest.mark.parametrize("others_wait", [False, True])
def test_read_is_a_slice_of_some_frames(others_wait: bool) -> None:
    times_ns = count(step=70_000)
    scheduler = FairScheduler(SimpleNamespace(monotonic_ns=lambda: next(times_ns)), on_slice=lambda connection: None)
    peer = Peer([b"four"] * 5, scratch=memoryview(bytearray(4_096)), scheduler=scheduler)
    if others_wait:
        scheduler.enqueue(Peer([b"four"], scheduler=scheduler).connection)

    peer.send(4_096)
    seen = [len(peer.seen)]
    while peer.connection.awaits_slice:
        peer.connection.awaits_slice = False
        peer.resume()
        seen.append(len(peer.seen))

    assert seen == [3, 5]


def test_frame_that_is_longer_than_a_slice_is_the_only_one() -> None:
    clock = SimulatedClock()
    peer = Peer([b"four"] * 2, scheduler=FairScheduler(clock, on_slice=lambda connection: None))
    peer.take_time = lambda: clock.advance(1)

    peer.send(SCRATCH_BYTES)

    assert (len(peer.seen), peer.connection.awaits_slice) == (1, True)


def test_rest_of_frames_counts_the_whole_buffer_it_keeps() -> None:
    peer = Peer([b"four"] * 100, scratch=memoryview(bytearray(4_096)))
    peer.send(4_096)
    held = [peer.connection.held_bytes]
    while peer.connection.awaits_slice:
        peer.connection.awaits_slice = False
        peer.resume()
        held.append(peer.connection.held_bytes)

    # 68 frames of eight bytes are left after the first slice, then 36, which are more than half of the buffer of those.
    assert held == [68 * 8, 68 * 8, 4 * 8, 0]
    assert len(peer.seen) == 100


def test_own_slice_ends_with_the_time_of_all() -> None:
    """The slice is shorter than the millisecond of ``last_active_ms``, which stands still here."""
    clock = SimulatedClock()
    scheduler = FairScheduler(
        clock, on_slice=lambda connection: peer.resume() if connection is peer.connection else None
    )
    peer = Peer([b"four"] * 3, scheduler=scheduler)
    other = Peer([b"four"], scheduler=scheduler)
    scheduler.enqueue(other.connection)
    peer.take_time = lambda: clock.advance(1)

    peer.send(SCRATCH_BYTES)
    scheduler.run_slices()
    scheduler.enqueue(peer.connection)
    seen = [len(peer.seen)]
    scheduler.run_slices()
    seen.append(len(peer.seen))

    assert seen == [1, 2]
    assert peer.connection.awaits_slice
    peer.resume()
    assert len(peer.seen) == 3, "outside the slices there is no such limit"


def test_closed_connection_returns_no_frame() -> None:
    peer = Peer([b"first", b"second"])
    peer.close_on = {1}

    peer.send(SCRATCH_BYTES)
    peer.resume()

    assert peer.seen == [b"first"]


def test_large_frame_is_read_into_its_own_buffer() -> None:
    """The bytes of a second large frame are not moved: its size is read separately."""
    large = b"x" * 70_000
    peer = Peer([large, large])
    while len(peer.seen) < 1:
        peer.send(LIMIT_BYTES)

    assert len(peer.connection.receive_buffer()) == 4
    peer.send(LIMIT_BYTES)
    assert len(peer.connection.receive_buffer()) == len(large)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        pytest.param((3).to_bytes(4, "big"), "size of 3 bytes", id="too-small"),
        pytest.param(bytes(4), "size of 0 bytes", id="zero"),
        pytest.param(b"\xff\xff\xff\xff", "size of -1 bytes", id="negative"),
        pytest.param(b"\x80\x00\x00\x00", "size of -2147483648 bytes", id="most-negative"),
        pytest.param(b"\x7f\xff\xff\xff", "2147483647 bytes, more than socket.request.max.bytes", id="2-gib"),
        pytest.param((LIMIT_BYTES + 1).to_bytes(4, "big"), f"claims {LIMIT_BYTES + 1} bytes", id="one-too-many"),
        pytest.param(b"\x16\x03\x01\x02", "TLS hello", id="tls"),
        pytest.param(b"GET ", "HTTP", id="http-get"),
        pytest.param(b"POST", "HTTP", id="http-post"),
    ],
)
@pytest.mark.parametrize("is_byte_by_byte", [False, True], ids=["at-once", "byte-by-byte"])
@pytest.mark.parametrize("lead", [b"", b"good", b"g" * 70_000], ids=["first", "after-small", "after-large"])
def test_invalid_size_is_rejected_with_a_probable_cause(
    head: bytes, reason: str, is_byte_by_byte: bool, lead: bytes
) -> None:
    peer = Peer([lead] if lead else [])
    peer.stream += head + b"more"

    def send_all() -> None:
        while not peer.is_done:
            peer.send(1 if is_byte_by_byte and peer.sent >= len(peer.stream) - 8 else LIMIT_BYTES)

    with pytest.raises(ProtocolError, match=reason):
        send_all()
    assert peer.seen == ([lead] if lead else [])


@pytest.mark.parametrize("size", [4, LIMIT_BYTES])
def test_smallest_and_largest_frame_are_accepted(size: int) -> None:
    peer = Peer([b"x" * size])
    while not peer.is_done:
        peer.send(LIMIT_BYTES)

    assert [len(frame) for frame in peer.seen] == [size]


def test_claimed_size_takes_no_memory_before_its_bytes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    acquire: Callable[[Any, int], memoryview] = BufferPool.acquire
    monkeypatch.setattr(BufferPool, "acquire", lambda pool, size: taken.append(size) or acquire(pool, size))
    peer = Peer([])
    peer.stream = (100).to_bytes(4, "big")

    peer.send(4)

    assert taken == []


def send_unless_waiting(peer: Peer, size_bytes: int) -> None:
    if not peer.is_done and not peer.connection.is_waiting:
        peer.send(size_bytes)


@settings(max_examples=300)
@given(
    frames=st.tuples(FRAMES, FRAMES, FRAMES),
    order=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), max_size=60),
    block_on=st.sets(st.integers(1, 8)),
    limit_bytes=st.sampled_from([1, 300, 2_000, 70_000, LIMIT_BYTES, 2 * LIMIT_BYTES]),
)
def test_frames_are_returned_completely_however_little_memory_there_is(
    frames: tuple[list[bytes], ...], order: list[tuple[int, int]], block_on: set[int], limit_bytes: int
) -> None:
    memory = request_memory(limit_bytes)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    peers = [Peer(stream, scratch=scratch, memory=memory) for stream in frames]
    peers[0].block_on = block_on

    def turn(peer: Peer, size_bytes: int) -> None:
        if peer.connection.is_blocked:
            peer.resume()
        else:
            send_unless_waiting(peer, size_bytes)

    for which, size_bytes in order:
        turn(peers[which], size_bytes)
    rounds = 0
    while not all(peer.is_done and not peer.connection.is_blocked for peer in peers):
        for peer in peers:
            turn(peer, LIMIT_BYTES)
        rounds += 1
        assert rounds < 1_000_000 // SCRATCH_BYTES * 16, "they wait for each other"

    assert tuple(peer.seen for peer in peers) == frames
    assert memory.held_bytes == 0
    assert memory.waiter_count == 0


@pytest.mark.parametrize("part", [1, 3, 4, 5, 100, 70_000], ids=lambda part: f"{part}-bytes-came")
@pytest.mark.parametrize("lead", [b"", b"g" * 70_000], ids=["first", "after-large"])
def test_closed_connection_releases_its_memory(part: int, lead: bytes) -> None:
    memory = request_memory(2 * LIMIT_BYTES)
    peer = Peer([lead, b"x" * LIMIT_BYTES] if lead else [b"x" * LIMIT_BYTES], memory=memory)
    stop = peer.sent + len(peer.stream) - LIMIT_BYTES - 4 + part
    while peer.sent < stop:
        peer.send(stop - peer.sent)

    assert memory.held_bytes >= (part if part > 4 else 0)
    peer.connection.close()

    assert memory.held_bytes == 0


def test_closed_connection_leaves_the_queue_for_memory() -> None:
    memory = request_memory(2 * LIMIT_BYTES)
    holder, waiter = (Peer([b"x" * LIMIT_BYTES], memory=memory) for _ in range(2))
    holder.send(100)
    waiter.send(100)
    assert (holder.connection.is_waiting, waiter.connection.is_waiting) == (False, True)

    waiter.connection.close()

    assert memory.waiter_count == 0
    assert memory.held_bytes == holder.connection.held_bytes


def test_complete_small_frames_hold_no_memory() -> None:
    memory = request_memory(2 * LIMIT_BYTES)
    held: list[int] = []
    peer = Peer([b"first", b"second"], memory=memory)
    peer.connection._on_frame = lambda connection, frame: held.append(memory.held_bytes)

    peer.send(SCRATCH_BYTES)

    assert held == [0, 0]


def test_partial_small_frame_holds_its_complete_size() -> None:
    """Its complete size is acquired at once, so that its rest need not wait for memory."""
    memory = request_memory(2 * LIMIT_BYTES)
    peer = Peer([b"x" * 100], memory=memory)

    peer.send(10)
    assert memory.held_bytes == 104
    peer.send(10)
    assert memory.held_bytes == 104
    peer.send(SCRATCH_BYTES)

    assert memory.held_bytes == 0
    assert peer.seen == [b"x" * 100]


def test_partial_frame_keeps_its_memory_when_the_connection_is_resumed() -> None:
    memory = request_memory(2 * LIMIT_BYTES)
    peer = Peer([b"x" * 100], memory=memory)
    peer.send(10)
    memory.acquire(Peer([]).connection, 2 * LIMIT_BYTES)
    for _ in range(4):
        memory.acquire(Peer([]).connection, 25_000)

    peer.resume()

    assert (peer.connection.is_waiting, peer.connection.held_bytes) == (False, 104)

"""Requests share a memory limit: never above it, each kind in its order, no request waits for ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.network.request_memory import RequestMemory

KIB = 1024
MIB = 1024 * KIB


class Bank:
    """A `RequestMemory` with its granted waiters, in order; a waiter's name is its size and a number."""

    def __init__(self, limit_bytes: int = 256 * MIB, read_bytes_max: int = 256 * KIB) -> None:
        self.granted: list[str] = []
        self.waited: list[str] = []
        self.memory: RequestMemory[str] = RequestMemory(
            limit_bytes=limit_bytes,
            read_bytes_max=read_bytes_max,
            on_wait=self.waited.append,
            on_granted=self.granted.append,
        )


def test_frame_beyond_the_limit_waits_for_capacity() -> None:
    bank = Bank()

    assert bank.memory.acquire("a", 100 * MIB)
    assert not bank.memory.acquire("b", 50 * MIB), "large frames share half of the limit"
    assert (bank.memory.held_bytes, bank.memory.waiter_count, bank.waited) == (100 * MIB, 1, ["b"])
    bank.memory.release(100 * MIB)

    assert bank.granted == ["b"]
    assert (bank.memory.held_bytes, bank.memory.waiter_count) == (50 * MIB, 0)


@pytest.mark.parametrize(
    ("size_bytes", "is_ordinary"),
    [pytest.param(2 * MIB, True, id="2-mib"), pytest.param(2 * MIB + 1, False, id="one-more")],
)
def test_ordinary_frames_do_not_wait_for_large_ones(size_bytes: int, is_ordinary: bool) -> None:
    bank = Bank()
    bank.memory.acquire("large", 128 * MIB)
    bank.memory.acquire("waiting", 50 * MIB)

    assert bank.memory.acquire("next", size_bytes) is is_ordinary


def test_longest_wait_is_granted_first_within_its_kind() -> None:
    bank = Bank()
    bank.memory.acquire("held", 128 * MIB)
    bank.memory.acquire("first", 100 * MIB)
    bank.memory.acquire("second", 3 * MIB)

    bank.memory.release(128 * MIB)
    assert bank.granted == ["first", "second"]
    assert not bank.memory.acquire("third", 26 * MIB)
    bank.memory.acquire("fourth", 3 * MIB)
    bank.memory.release(3 * MIB)
    assert bank.granted == ["first", "second", "third"], "the fourth alone would have fitted all the time"


def test_ordinary_frames_that_keep_coming_do_not_starve_a_large_one() -> None:
    bank = Bank()
    for number in range(128):
        assert bank.memory.acquire(f"ordinary {number}", 2 * MIB), "without large ones the whole limit is theirs"
    assert not bank.memory.acquire("large", 100 * MIB)

    for number in range(96):
        bank.memory.release(2 * MIB)
        bank.memory.acquire(f"next {number}", 2 * MIB)

    assert bank.granted[0] == "large"
    assert bank.memory.held_bytes <= 256 * MIB


def test_frame_larger_than_its_share_is_admitted_as_the_only_large_one() -> None:
    bank = Bank(limit_bytes=100 * MIB)
    assert bank.memory.acquire("ordinary", 1 * MIB)
    assert bank.memory.acquire("all", 100 * MIB)
    assert not bank.memory.acquire("other", 3 * MIB)
    assert bank.memory.acquire("still served", 1 * MIB)

    bank.memory.release(100 * MIB)

    assert bank.granted == ["other"]


def test_cancelled_waiter_unblocks_those_behind_it() -> None:
    bank = Bank()
    bank.memory.acquire("held", 100 * MIB)
    bank.memory.acquire("too much", 100 * MIB)
    bank.memory.acquire("little", 3 * MIB)

    bank.memory.cancel("too much")

    assert bank.granted == ["little"]


def test_frames_are_read_one_by_one_before_parked_bytes_exceed_a_quarter() -> None:
    bank = Bank(limit_bytes=1024 * KIB + 4 * KIB, read_bytes_max=256 * KIB)
    assert not bank.memory.is_read_frame_by_frame

    bank.memory.park(1 * KIB)
    assert not bank.memory.is_read_frame_by_frame, "these bytes and another read are exactly a quarter"
    bank.memory.park(1)
    assert bank.memory.is_read_frame_by_frame
    bank.memory.unpark(1)
    assert not bank.memory.is_read_frame_by_frame


def test_limit_below_four_reads_is_kept_by_reading_frames_one_by_one() -> None:
    assert Bank(limit_bytes=1024 * KIB - 1, read_bytes_max=256 * KIB).memory.is_read_frame_by_frame


def test_released_parked_bytes_free_capacity() -> None:
    bank = Bank(limit_bytes=16 * MIB)
    bank.memory.park(4 * MIB)
    bank.memory.acquire("a", 8 * MIB)
    for number in range(4):
        bank.memory.acquire(f"ordinary {number}", 1 * MIB)
    assert not bank.memory.acquire("one more", 1 * MIB)

    bank.memory.unpark(1 * MIB)

    assert bank.granted == ["one more"]


SIZES = st.sampled_from([1, 100, 64 * KIB, 1 * MIB, 2 * MIB, 2 * MIB + 1, 10 * MIB, 50 * MIB, 100 * MIB])


@settings(max_examples=300)
@given(
    limit_mib=st.sampled_from([1, 100, 199, 200, 256]),
    steps=st.lists(st.tuples(SIZES, st.integers(0, 3)), min_size=1, max_size=60),
)
def test_no_frame_waits_for_ever_and_the_limit_holds(limit_mib: int, steps: list[tuple[int, int]]) -> None:
    """Frames arrive and end in any order: those of a kind are granted memory in order, and in the end all were."""
    limit_bytes = limit_mib * MIB
    bank = Bank(limit_bytes=limit_bytes)
    sizes: dict[str, int] = {}
    at_once: set[str] = set()
    ended: set[str] = set()

    def held() -> list[str]:
        return [name for name in sizes if (name in at_once or name in bank.granted) and name not in ended]

    def end(name: str) -> None:
        ended.add(name)
        bank.memory.release(sizes[name])

    def check() -> None:
        largest = max((sizes[name] for name in held()), default=0)
        assert bank.memory.held_bytes == sum(sizes[name] for name in held())
        assert bank.memory.held_bytes <= limit_bytes + max(0, largest - limit_bytes // 2)
        assert bank.memory.waiter_count == len(bank.waited) - len(bank.granted)

    for number, (size, ends) in enumerate(steps):
        name = f"{number}: {size}"
        sizes[name] = size
        if bank.memory.acquire(name, size):
            at_once.add(name)
        check()
        for other in held()[:ends]:
            end(other)
            check()
    while held():
        end(held()[0])
        check()

    assert sorted(bank.granted) == sorted(bank.waited)
    for is_ordinary in (True, False):
        kind = [name for name in bank.waited if (sizes[name] <= bank.memory.ordinary_bytes_max) is is_ordinary]
        assert [name for name in bank.granted if name in kind] == kind
    assert (bank.memory.held_bytes, bank.memory.waiter_count) == (0, 0)

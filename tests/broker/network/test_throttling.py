"""Who is muted, until when, and what is forgotten."""

from types import SimpleNamespace
from typing import Any

from ottla.network.throttling import ThrottledConnections


def connection(number: int) -> Any:
    return SimpleNamespace(info=SimpleNamespace(connection=number), is_blocked=False, is_muted=False)


def test_each_goes_on_when_its_time_has_passed() -> None:
    over: list[Any] = []
    muting = ThrottledConnections(over.append)
    long, short = connection(1), connection(2)
    muting.mute(long, 200)
    muting.mute(short, 100)
    assert muting.next_deadline_ms() == 100

    muting.tick(99)
    assert over == []
    muting.tick(100)
    assert over == [short]
    assert (short.is_muted, long.is_muted) == (False, True)
    muting.tick(200)
    assert over == [short, long]
    assert muting.next_deadline_ms() is None


def test_a_longer_time_counts_and_a_shorter_one_does_not() -> None:
    over: list[Any] = []
    muting = ThrottledConnections(over.append)
    muted = connection(1)
    muting.mute(muted, 100)
    muting.mute(muted, 300)
    muting.mute(muted, 200)

    muting.tick(299)
    assert over == []
    muting.tick(300)
    assert over == [muted]


def test_one_that_has_ended_is_forgotten_and_leaves_nothing_behind() -> None:
    muting = ThrottledConnections(lambda _: None)
    for number in range(1_000):
        muting.mute(connection(number), 10**9)
        muting.forget(number)

    assert len(muting) == 0
    assert len(muting._due) <= 66

"""Throttled connections: until when, and no trace of closed ones."""

from types import SimpleNamespace
from typing import Any

from ottla.network.throttling import ThrottledConnections


def connection(number: int) -> Any:
    return SimpleNamespace(info=SimpleNamespace(connection=number), is_blocked=False, is_throttled=False)


def test_connection_resumes_when_its_throttle_time_is_over() -> None:
    over: list[Any] = []
    throttled = ThrottledConnections(over.append)
    long, short = connection(1), connection(2)
    throttled.throttle(long, 200)
    throttled.throttle(short, 100)
    assert throttled.next_deadline_ms() == 100

    throttled.tick(99)
    assert over == []
    throttled.tick(100)
    assert over == [short]
    assert (short.is_throttled, long.is_throttled) == (False, True)
    throttled.tick(200)
    assert over == [short, long]
    assert throttled.next_deadline_ms() is None


def test_throttle_time_grows_and_never_shrinks() -> None:
    over: list[Any] = []
    throttled = ThrottledConnections(over.append)
    slow = connection(1)
    throttled.throttle(slow, 100)
    throttled.throttle(slow, 300)
    throttled.throttle(slow, 200)

    throttled.tick(299)
    assert over == []
    throttled.tick(300)
    assert over == [slow]


def test_closed_connection_leaves_nothing_behind() -> None:
    throttled = ThrottledConnections(lambda _: None)
    for number in range(1_000):
        throttled.throttle(connection(number), 10**9)
        throttled.remove(number)

    assert len(throttled) == 0
    assert len(throttled._due) <= 66

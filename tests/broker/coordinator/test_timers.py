"""Timers: each key has one deadline, the newest; they run in order, at their millisecond."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.timers import Timers


def test_timer_runs_at_its_deadline_and_never_before() -> None:
    timers, ran = Timers(), []
    timers.schedule("a", 100, lambda: ran.append("a"))

    assert timers.run_due(99) == 0
    assert ran == []
    assert timers.run_due(100) == 1
    assert ran == ["a"]
    assert timers.next_deadline_ms() is None


def test_scheduling_again_moves_the_deadline() -> None:
    timers, ran = Timers(), []
    timers.schedule("later", 100, lambda: ran.append("old"))
    timers.schedule("later", 200, lambda: ran.append("later"))
    timers.schedule("sooner", 300, lambda: ran.append("old"))
    timers.schedule("sooner", 150, lambda: ran.append("sooner"))

    assert timers.next_deadline_ms() == 150
    timers.run_due(199)
    assert ran == ["sooner"]
    timers.run_due(1000)
    assert ran == ["sooner", "later"]


def test_postponed_timer_runs_what_was_planned_at_its_later_deadline() -> None:
    timers, ran = Timers(), []
    timers.schedule("a", 100, lambda: ran.append("a"))

    assert timers.postpone("a", 200)

    assert timers.run_due(199) == 0
    assert timers.run_due(200) == 1
    assert ran == ["a"]
    assert not timers.postpone("a", 300), "it has run"


def test_timer_cannot_be_postponed_to_an_earlier_deadline() -> None:
    timers, ran = Timers(), []
    timers.schedule("a", 100, lambda: ran.append("a"))

    assert not timers.postpone("a", 99)
    assert not timers.postpone("unknown", 200)

    assert timers.next_deadline_ms() == 100
    assert len(timers) == 1


def test_run_ends_early_after_at_least_one() -> None:
    timers, ran = Timers(), []
    for number in range(3):
        timers.schedule(number, 100, lambda number=number: ran.append(number))

    counts = [timers.run_due(100, lambda: True), timers.run_due(100, lambda: len(ran) == 3)]

    assert (counts, ran) == ([1, 2], [0, 1, 2])


def test_cancelled_timer_does_not_run() -> None:
    timers, ran = Timers(), []
    timers.schedule(("x", 1), 100, lambda: ran.append(1))
    timers.schedule(("x", 2), 100, lambda: ran.append(2))
    timers.schedule(("y", 3), 100, lambda: ran.append(3))
    timers.cancel(("y", 3))
    timers.cancel("unknown")
    timers.cancel_where(lambda key: key == ("x", 1))

    timers.run_due(100)

    assert ran == [2]
    assert len(timers) == 0


def test_timer_scheduled_by_a_timer_for_now_still_runs() -> None:
    timers, ran = Timers(), []
    timers.schedule("a", 100, lambda: timers.schedule("b", 100, lambda: ran.append("b")))

    assert timers.run_due(100) == 2
    assert ran == ["b"]


def test_rescheduled_timers_do_not_accumulate() -> None:
    timers = Timers()
    for now_ms in range(10_000):
        timers.schedule("member", now_ms + 1000, lambda: None)

    assert len(timers._heap) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=40))
def test_timers_run_once_each_in_the_order_of_their_newest_deadlines(scheduled: list[tuple[int, int]]) -> None:
    timers, ran = Timers(), []
    newest = {}
    for key, deadline_ms in scheduled:
        newest[key] = deadline_ms
        timers.schedule(key, deadline_ms, lambda key=key, at=deadline_ms: ran.append((at, key)))

    assert timers.next_deadline_ms() == min(newest.values(), default=None)
    timers.run_due(100)

    assert [at for at, _ in ran] == sorted(newest.values())
    assert {key: at for at, key in ran} == newest

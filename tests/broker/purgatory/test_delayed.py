"""A value is delivered once, to every callback, in the order in which they were added."""

from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all


def test_callbacks_run_in_order_when_the_value_is_delivered() -> None:
    delayed: Delayed[int] = Delayed()
    seen: list[tuple[str, int]] = []
    delayed.on_complete(lambda value: seen.append(("first", value)))
    delayed.on_complete(lambda value: seen.append(("second", value)))

    assert seen == []
    assert delayed.complete(7)
    assert seen == [("first", 7), ("second", 7)]


def test_late_callback_runs_at_once() -> None:
    seen: list[int] = []

    Delayed.of(3).on_complete(seen.append)

    assert seen == [3]


def test_only_the_first_value_counts() -> None:
    delayed = Delayed.of(1)

    assert not delayed.complete(2)
    assert delayed.value == 1


def test_none_is_a_value() -> None:
    delayed: Delayed[None] = Delayed()

    assert not delayed.is_complete
    delayed.complete(None)

    assert delayed.is_complete
    assert delayed.value is None


def test_then_maps_the_value() -> None:
    delayed: Delayed[int] = Delayed()
    doubled = delayed.then(lambda value: value * 2)

    assert not doubled.is_complete
    delayed.complete(4)

    assert doubled.value == 8


def test_then_compose_waits_for_both_values() -> None:
    first: Delayed[int] = Delayed()
    second: Delayed[str] = Delayed()
    seen: list[int] = []

    def start(value: int) -> Delayed[str]:
        seen.append(value)
        return second

    composed = first.then_compose(start)
    first.complete(4)

    assert seen == [4]
    assert not composed.is_complete
    second.complete("four")
    assert composed.value == "four"


def test_callback_may_add_another_callback() -> None:
    delayed: Delayed[int] = Delayed()
    seen: list[int] = []
    delayed.on_complete(lambda _: delayed.on_complete(seen.append))

    delayed.complete(5)

    assert seen == [5]


def test_when_all_returns_values_in_order_of_parts() -> None:
    parts: list[Delayed[str]] = [Delayed(), Delayed.of("b"), Delayed()]
    whole = when_all(parts)

    parts[2].complete("c")
    assert not whole.is_complete
    parts[0].complete("a")

    assert whole.value == ["a", "b", "c"]


def test_no_parts_are_complete_at_once() -> None:
    assert when_all([]).value == []


def test_value_is_delivered_after_abandon_without_on_abandon() -> None:
    delayed: Delayed[int] = Delayed()
    seen: list[int] = []
    delayed.on_complete(seen.append)

    delayed.abandon()

    assert not delayed.is_complete
    assert delayed.complete(6)
    assert seen == [6]


def test_on_abandon_runs_once_and_no_value_is_delivered() -> None:
    delayed: Delayed[int] = Delayed()
    calls: list[str] = []
    seen: list[int] = []
    delayed.on_abandon = lambda: calls.append("abandoned")
    delayed.on_complete(seen.append)

    delayed.abandon()
    delayed.abandon()

    assert calls == ["abandoned"]
    assert delayed.is_complete
    assert not delayed.complete(6)
    delayed.on_complete(seen.append)
    assert seen == []


def test_delivered_value_cannot_be_abandoned() -> None:
    delayed = Delayed.of(8)
    calls: list[str] = []
    delayed.on_abandon = lambda: calls.append("abandoned")

    delayed.abandon()

    assert calls == []
    assert delayed.value == 8

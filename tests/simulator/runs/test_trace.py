"""The trace of a run says where something was raised, and no path of the machine that it ran on."""

from ottla.simulator.runs.trace import Trace
from ottla.simulator.world.clock import SimulatedClock


def outer() -> None:
    inner()


def inner() -> None:
    raise ValueError("x")


def test_an_error_is_noted_with_the_places_that_it_went_through() -> None:
    trace = Trace(SimulatedClock())
    try:
        outer()
    except ValueError as error:
        trace.note_error("node1", error)

    (note,) = trace.last()
    places = note.split("  node1")[1].strip().split(" > ")
    assert [place.split(" ")[1] for place in places][-2:] == ["outer", "inner"]
    assert all(place.startswith("runs/test_trace.py:") for place in places)


def test_only_the_innermost_places_of_a_deep_error_are_noted() -> None:
    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
        inner()

    trace = Trace(SimulatedClock())
    try:
        down(50)
    except ValueError as error:
        trace.note_error("node1", error)

    names = [place.split(" ")[1] for place in trace.last()[0].split("node1")[1].strip().split(" > ")]
    assert names == ["down"] * 7 + ["inner"]

"""The trace of a run has the place where an exception was raised, without paths of the host."""

from ottla.simulator.runs.trace import Trace
from ottla.simulator.world.clock import SimulatedClock


def outer() -> None:
    inner()


def inner() -> None:
    raise ValueError("x")


def test_error_is_traced_with_its_stack() -> None:
    trace = Trace(SimulatedClock())
    try:
        outer()
    except ValueError as error:
        trace.note_error("node1", error)

    (note,) = trace.last()
    places = note.split("  node1")[1].strip().split(" > ")
    assert [place.split(" ")[1] for place in places][-2:] == ["outer", "inner"]
    assert all(place.startswith("runs/test_trace.py:") for place in places)


def test_only_the_innermost_frames_of_a_deep_error_are_traced() -> None:
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

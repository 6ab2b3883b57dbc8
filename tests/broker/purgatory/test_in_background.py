"""Steps that wait for work off the loop receive its result, or its exception, where they wait."""

import pytest

from ottla.purgatory.in_background import in_background
from ottla.purgatory.steps import Steps, run_to_end
from ottla.simulator.world.background import SimulatedBackground


def test_steps_resume_with_the_result() -> None:
    background = SimulatedBackground()
    steps = in_background(background, lambda: 42)
    wait = next(steps)
    assert wait is not None
    assert not wait.is_complete
    background.complete_work()

    with pytest.raises(StopIteration) as end:
        steps.send(wait.value)
    assert end.value.value == 42


def test_exception_of_the_work_is_raised_where_the_steps_wait() -> None:
    background = SimulatedBackground()

    def divide() -> Steps[str]:
        try:
            yield from in_background(background, lambda: 1 // 0)
        except ZeroDivisionError as error:
            return str(error)
        return "no error"

    steps = divide()
    wait = next(steps)
    background.complete_work()
    assert wait is not None
    with pytest.raises(StopIteration) as end:
        steps.send(wait.value)

    assert end.value.value == "integer division or modulo by zero"


def test_closed_steps_leave_the_work_to_its_end() -> None:
    """Memory of the work is counted until its thread has finished, not until the client has gone."""
    background = SimulatedBackground()
    ended: list[str] = []
    steps = in_background(background, lambda: None, on_end=lambda: ended.append("ended"))
    next(steps)
    steps.close()
    assert ended == []
    background.complete_work()

    assert ended == ["ended"]


def test_steps_that_wait_cannot_be_run_without_slices() -> None:
    with pytest.raises(RuntimeError):
        run_to_end(in_background(SimulatedBackground(), lambda: 1))

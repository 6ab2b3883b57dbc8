"""Unexpected exceptions are counted, and logged on at most one bounded line a second."""

import pytest

from ottla.metrics.network import NetworkMetrics
from ottla.runtime.defects import Defects
from ottla.simulator.world.clock import SimulatedClock


def test_unexpected_exceptions_are_counted_and_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock, metrics = SimulatedClock(), NetworkMetrics()
    defects = Defects(clock, metrics)
    for _ in range(3):
        defects.note("closing connection from kafka.test:9092", ValueError("a\nb" * 1_000))
    clock.advance(1_000)
    defects.note("an event was dropped", MemoryError())

    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert metrics.unexpected_errors == 4
    assert [len(line) < 500 and "\n" not in line for line in lines] == [True, True]
    assert lines[1] == "an event was dropped: MemoryError: '' (4 such errors so far)"

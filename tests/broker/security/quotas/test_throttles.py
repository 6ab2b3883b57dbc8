"""Every throttle is counted; at most one per second is logged."""

import logging

import pytest

from ottla.security.quotas.throttles import Throttles
from ottla.simulator.world.clock import SimulatedClock


def test_every_throttle_is_counted_and_one_per_second_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    throttles = Throttles(clock)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            throttles.record("producer_byte_rate", 40, "client 'c'")
        clock.advance(1_000)
        throttles.record("producer_byte_rate", 40, "client 'c'")

    assert len(caplog.messages) == 2
    assert "client 'c' is throttled for 40 ms by producer_byte_rate; 6 times so far" in caplog.messages[1]
    assert throttles.by_kind["producer_byte_rate"].count == 6
    assert throttles.by_kind["producer_byte_rate"].time_ms == 240

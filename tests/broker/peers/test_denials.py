"""Denials by other nodes: one line says what to set, and it is repeated at a bounded rate."""

import logging

import pytest

from ottla.peers.denials import PeerDenials
from ottla.simulator.clock import SimulatedClock


def test_a_denial_names_the_principal_and_what_to_set_twice_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    denials = PeerDenials(clock, "User:ANONYMOUS")
    for _ in range(61):
        denials.note(2, "a vote")
        clock.advance(1_000)

    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 3
    assert "node 2 denies a vote to this node, which is User:ANONYMOUS there" in lines[0]
    assert "super.users" in lines[0]
    assert "(61 denials so far)" in lines[2]

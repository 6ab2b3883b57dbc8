"""Denials by other nodes: one line says what to configure, and is repeated at a bounded rate."""

import logging

import pytest

from ottla.peers.denials import PeerDenials
from ottla.simulator.world.clock import SimulatedClock


def test_rejections_for_missing_acl_entries_are_logged_only_after_the_start(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    denials = PeerDenials(clock, "User:node")
    lines = []
    for _ in range(40):
        denials.suspect(2, "a vote")
        lines.append(len(caplog.records))
        clock.advance(1_000)

    assert lines[:4] == [0, 0, 0, 1]
    assert lines[-1] == 2
    assert "This node is User:node there" in caplog.records[0].getMessage()
    assert "super.users" in caplog.records[0].getMessage()


def test_denials_are_logged_twice_a_minute_with_principal_and_remedy(caplog: pytest.LogCaptureFixture) -> None:
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

"""Every refusal is counted, a flood of them is not a flood of lines, and a name cannot forge one."""

import logging

import pytest

from ottla.security.denials import Denials
from ottla.simulator.world.clock import SimulatedClock
from ottla.wire.acl_codes import Operation, ResourceType


def note(denials: Denials, name: str = "orders") -> None:
    denials.note("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)


def test_all_are_counted_and_one_a_second_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    denials = Denials(clock)

    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            note(denials)
        clock.advance(999)
        note(denials)
        clock.advance(1)
        note(denials)

    assert denials.counts[Operation.READ, ResourceType.TOPIC] == 7
    assert [record.getMessage().rpartition("; ")[2] for record in caplog.records] == [
        "1 refusals so far",
        "7 refusals so far",
    ]


def test_a_line_says_who_what_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        note(Denials(SimulatedClock()))

    assert caplog.messages == [
        "denied: 'User:alice' from 10.0.0.1 may not READ the topic 'orders'; an access control entry would allow it "
        "(ottla acl add); 1 refusals so far"
    ]


def test_a_name_with_line_breaks_or_without_end_stays_on_its_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        note(Denials(SimulatedClock()), "a\nCRITICAL forged" + "x" * 30_000)

    (message,) = caplog.messages
    assert "\n" not in message
    assert len(message) < 400

"""Every denial is counted; many denials are few log lines; names cannot forge log lines."""

import logging

import pytest

from ottla.security.denials import Denials
from ottla.simulator.world.clock import SimulatedClock
from ottla.wire.acl_codes import Operation, ResourceType


def note(denials: Denials, name: str = "orders") -> None:
    denials.record_denial("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, name)


def test_every_denial_is_counted_and_one_per_second_is_logged(caplog: pytest.LogCaptureFixture) -> None:
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
        "1 denials so far",
        "7 denials so far",
    ]


def test_log_line_names_principal_operation_resource_and_remedy(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        note(Denials(SimulatedClock()))

    assert caplog.messages == [
        "denied: 'User:alice' from 10.0.0.1 may not READ the topic 'orders'; an access control entry would allow it "
        "(ottla acl add); 1 denials so far"
    ]


def test_line_breaks_and_long_names_cannot_forge_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        note(Denials(SimulatedClock()), "a\nCRITICAL forged" + "x" * 30_000)

    (message,) = caplog.messages
    assert "\n" not in message
    assert len(message) < 400

"""Conditions as kstatus reads them."""

from typing import Any

import pytest

from ottla_operator.model.conditions import (
    Accepted,
    Reached,
    Refused,
    Verdict,
    Waiting,
    conditions,
    ready_condition,
)

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def statuses(verdict: Verdict) -> dict[str, str]:
    return {it["type"]: it["status"] for it in conditions(verdict, generation=1, previous=[], now=NOW)}


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        pytest.param(Reached("A", "b"), {"Ready": "True", "Reconciling": "False", "Stalled": "False"}, id="reached"),
        pytest.param(Waiting("A", "b"), {"Ready": "False", "Reconciling": "True", "Stalled": "False"}, id="waiting"),
        pytest.param(Refused("A", "b"), {"Ready": "False", "Reconciling": "False", "Stalled": "True"}, id="refused"),
        pytest.param(Accepted(), {"Ready": "Unknown", "Reconciling": "True", "Stalled": "False"}, id="accepted"),
    ],
)
def test_verdict_becomes_three_conditions(verdict: Verdict, expected: dict[str, str]) -> None:
    assert statuses(verdict) == expected


def test_reason_and_message_stand_where_something_is_said() -> None:
    ready, reconciling, stalled = conditions(Waiting("Why", "words"), generation=3, previous=[], now=NOW)

    assert (ready["reason"], ready["message"]) == ("Why", "words")
    assert (reconciling["reason"], reconciling["message"]) == ("Why", "words")
    assert (stalled["reason"], stalled["message"]) == ("NotStalled", "")
    assert stalled["observedGeneration"] == 3


def test_time_moves_only_when_the_status_does() -> None:
    first = conditions(Waiting("A", "b"), generation=1, previous=[], now=NOW)

    second = conditions(Refused("C", "d"), generation=2, previous=first, now=LATER)

    assert [it["lastTransitionTime"] for it in second] == [NOW, LATER, LATER]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param({}, None, id="no-status"),
        pytest.param({"status": {"conditions": [{"type": "Stalled"}]}}, None, id="other-conditions"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "reason": "R"}]}}, "R", id="ready"),
    ],
)
def test_ready_condition_is_found(document: dict[str, Any], reason: str | None) -> None:
    found = ready_condition(document)

    assert (found["reason"] if found else None) == reason

"""Conditions as kstatus reads them."""

from typing import Any

import pytest

from ottla_operator.model.conditions import (
    Accepted,
    Degradation,
    Halted,
    Held,
    Reached,
    Readiness,
    Rejected,
    Underway,
    Waiting,
    conditions,
    known_degradation,
    ready_condition,
)

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def statuses(readiness: Readiness) -> dict[str, str]:
    return {it["type"]: it["status"] for it in conditions(readiness, generation=1, previous=[], now=NOW)}


ALWAYS = {"Degraded": "False", "Paused": "False"}


@pytest.mark.parametrize(
    ("readiness", "expected"),
    [
        pytest.param(Reached("A", "b"), {"Ready": "True", "Progressing": "False"}, id="reached"),
        pytest.param(
            Underway("A", "b"), {"Ready": "True", "Progressing": "True", "Reconciling": "True"}, id="underway"
        ),
        pytest.param(Waiting("A", "b"), {"Ready": "False", "Progressing": "True", "Reconciling": "True"}, id="waiting"),
        pytest.param(Rejected("A", "b"), {"Ready": "False", "Progressing": "False", "Stalled": "True"}, id="rejected"),
        pytest.param(Halted("A", "b"), {"Ready": "False", "Progressing": "False", "Stalled": "True"}, id="halted"),
        pytest.param(Held("A", "b"), {"Ready": "False", "Progressing": "False"}, id="held"),
        pytest.param(Accepted(), {"Ready": "Unknown", "Progressing": "True", "Reconciling": "True"}, id="accepted"),
    ],
)
def test_readiness_becomes_conditions(readiness: Readiness, expected: dict[str, str]) -> None:
    assert statuses(readiness) == ALWAYS | expected


def test_reason_and_message_are_in_each_true_condition() -> None:
    said = {it["type"]: it for it in conditions(Waiting("Why", "words"), generation=3, previous=[], now=NOW)}

    assert list(said) == ["Ready", "Progressing", "Degraded", "Paused", "Reconciling"]
    for name in ("Ready", "Progressing", "Reconciling"):
        assert (said[name]["reason"], said[name]["message"]) == ("Why", "words")
    assert (said["Degraded"]["reason"], said["Degraded"]["message"]) == ("NotDegraded", "")
    assert {it["observedGeneration"] for it in said.values()} == {3}


def test_time_moves_only_when_the_status_does() -> None:
    first = conditions(Waiting("A", "b"), generation=1, previous=[], now=NOW)

    second = conditions(Rejected("C", "d"), generation=2, previous=first, now=LATER)

    assert {it["type"]: it["lastTransitionTime"] for it in second} == {
        "Ready": NOW,
        "Progressing": LATER,
        "Degraded": NOW,
        "Paused": NOW,
        "Stalled": LATER,
    }


def test_degradation_and_pause_are_reported_with_any_readiness() -> None:
    said = {
        it["type"]: (it["status"], it["reason"], it["message"])
        for it in conditions(
            Reached("A", "b"),
            generation=1,
            previous=[],
            now=NOW,
            degradation=Degradation("NodesDown", "node 1"),
            is_paused=True,
        )
    }

    assert said["Degraded"] == ("True", "NodesDown", "node 1")
    assert said["Paused"][:2] == ("True", "SpecPaused")
    assert said["Ready"] == ("True", "A", "b")


def test_rejected_spec_of_a_ready_object_is_degraded_until_it_is_accepted() -> None:
    rejected = Rejected("InvalidConfig", "words")
    new = conditions(rejected, generation=1, previous=[], now=NOW)
    ready = conditions(Reached("A", "b"), generation=1, previous=new, now=NOW)
    changed = conditions(rejected, generation=2, previous=ready, now=NOW)
    again = conditions(rejected, generation=2, previous=changed, now=NOW)
    mended = conditions(Reached("A", "b"), generation=3, previous=again, now=NOW)

    assert known_degradation(new) is None
    assert known_degradation(changed) == known_degradation(again) == Degradation("InvalidConfig", "words")
    assert known_degradation(mended) is None


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

"""The record of an operation: what is kept between two observations, and what starts a new record."""

from dataclasses import replace

import pytest

from ottla_operator.model.operation import Operation, OperationKind, Record, follow, parse_record

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"

ROLL = Operation(
    kind=OperationKind.ROLL,
    target="revision",
    step="Restarting",
    message="restart node a",
    nodes=("a",),
    left=3,
    takes_step=True,
    generation=2,
)


def begun(operation: Operation = ROLL) -> Record:
    record = follow(None, operation, now=NOW)
    assert record is not None
    return record


def test_first_step_of_an_operation_makes_its_record() -> None:
    assert begun().as_document() == {
        "id": ROLL.id,
        "kind": "Roll",
        "step": "Restarting",
        "node": "a",
        "startedAt": NOW,
        "stepStartedAt": NOW,
        "done": 0,
        "total": 3,
        "attempts": 1,
        "message": "restart node a",
        "generation": 2,
    }


def test_next_step_keeps_when_it_began_and_how_much_there_was() -> None:
    seen = replace(ROLL, nodes=("b",), left=2)

    record = follow(begun(), seen, now=LATER)

    assert record is not None
    assert (record.started_at, record.step_started_at) == (NOW, LATER)
    assert (record.done, record.total, record.attempts) == (1, 3, 1)


def test_attempts_are_counted_where_the_same_step_is_taken_again() -> None:
    record = follow(begun(), replace(ROLL, takes_step=False, message="waiting"), now=LATER)
    again = follow(record, ROLL, now=LATER)

    assert record is not None
    assert again is not None
    assert (record.attempts, record.message, record.step_started_at) == (1, "waiting", NOW)
    assert again.attempts == 2


def test_more_to_do_than_there_was_is_a_larger_total() -> None:
    record = follow(follow(begun(), replace(ROLL, left=1), now=NOW), replace(ROLL, left=4), now=NOW)

    assert record is not None
    assert (record.done, record.total) == (2, 6)


@pytest.mark.parametrize("other", [{"target": "another"}, {"kind": OperationKind.SCALE_UP}], ids=["target", "kind"])
def test_other_operation_starts_a_new_record(other: dict[str, OperationKind]) -> None:
    record = follow(begun(), replace(ROLL, **other), now=LATER)

    assert record is not None
    assert record.id != ROLL.id
    assert (record.started_at, record.attempts) == (LATER, 1)


def test_nothing_is_left_of_an_operation_that_is_over() -> None:
    assert follow(begun(), None, now=LATER) is None


def test_three_blockers_are_named() -> None:
    assert begun(replace(ROLL, blocked_by=tuple("abcd"))).blocked_by == ("a", "b", "c")


@pytest.mark.parametrize("operation", [ROLL, replace(ROLL, nodes=("a", "b"), blocked_by=("t-0",))], ids=["one", "two"])
def test_record_is_read_back(operation: Operation) -> None:
    record = begun(operation)

    assert parse_record({"operation": record.as_document()}) == record


@pytest.mark.parametrize("status", [{}, {"operation": {"id": "x", "kind": "Dance"}}], ids=["none", "unknown"])
def test_unknown_record_is_ignored(status: dict[str, dict[str, str]]) -> None:
    assert parse_record(status) is None

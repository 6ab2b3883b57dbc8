"""`resolve`: matches whole names, in slices, and reports expressions that are invalid here."""

import logging

import pytest

from ottla.groups.regex import resolve
from ottla.purgatory.steps import run_to_end


def test_names_are_matched_as_a_whole_in_their_order() -> None:
    names = ["orders-2", "my-orders-1", "orders-1", "orders-1-dead"]

    assert run_to_end(resolve(r"orders-\d", names)) == ["orders-2", "orders-1"]


def test_more_names_take_more_steps() -> None:
    names = [f"topic-{number}" for number in range(10_000)]

    assert sum(1 for _ in resolve("topic-.*", names)) > 10_000 // 64


def test_expensive_expression_is_matched_name_by_name() -> None:
    names = ["a" * 249] * 10

    assert sum(1 for _ in resolve("(?:(?:a{0,100}){0,10})?b", names)) >= len(names)


def test_invalid_expression_of_a_log_matches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert run_to_end(resolve("(a\n", ["a"])) == []

    assert r"'(a\n'" in caplog.text
    assert "missing closing )" in caplog.text

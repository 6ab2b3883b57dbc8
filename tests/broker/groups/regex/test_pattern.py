"""Regular expressions are accepted, match and fail as with RE2J 1.8, whose results are recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.config.patterns import PATTERN_SIZE_MAX, UNICODE_CLASSES_MAX
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.regex import check_pattern, resolve
from ottla.groups.regex.pattern import describe_invalid
from ottla.purgatory.steps import run_to_end
from recorded_cases import read_recorded

HERE = Path(__file__).parent
NAMES = json.loads((HERE / "topic_names.json").read_text(encoding="utf-8"))
LARGER_THAN_OURS = {"(a{100}){100}", "(a{1000}){1000}"}
"""RE2J accepts nested repetitions of more than 1,000 in all; RE2 does not."""
ACCEPTED_HERE = {
    "a{99999999999}": "invalid repeat count",
    "(?P<é>a)": "invalid named capture",
    "(?P<x>a)(?P<x>b)": "duplicate capture group name",
}
"""Errors of RE2J. RE2 reads a repetition with ten digits as literal text, and names of groups do not matter here."""
RECORDED = read_recorded(HERE / "re2j_results.jsonl")


def result(pattern: str) -> dict[str, Any]:
    error = describe_invalid(pattern)
    return {"error": error} if error is not None else {"names": run_to_end(resolve(pattern, NAMES))}


@pytest.mark.parametrize(("pattern", "re2j"), [each for each in RECORDED if each[0] not in LARGER_THAN_OURS])
def test_pattern_is_accepted_and_matches_as_with_re2j(pattern: str, re2j: dict[str, Any]) -> None:
    if pattern in ACCEPTED_HERE:
        assert re2j == {"error": ACCEPTED_HERE[pattern]}
        assert "names" in result(pattern)
    else:
        assert result(pattern) == re2j


@pytest.mark.parametrize("pattern", sorted(LARGER_THAN_OURS))
def test_nested_repetitions_of_more_than_a_thousand_are_rejected(pattern: str) -> None:
    assert result(pattern) == {"error": "invalid repeat count"}


def test_error_has_the_text_of_kafka() -> None:
    with pytest.raises(KafkaError) as caught:
        check_pattern("topic-(")

    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert caught.value.message == (
        "SubscribedTopicRegex `topic-(` is not a valid regular expression: missing closing )."
    )


@pytest.mark.parametrize(
    ("pattern", "is_accepted"),
    [
        pytest.param("a" * PATTERN_SIZE_MAX, True, id="longest"),
        pytest.param("a" * (PATTERN_SIZE_MAX + 1), False, id="too-long"),
        pytest.param(r"\p{Greek}" * UNICODE_CLASSES_MAX, True, id="most-unicode-classes"),
        pytest.param(r"\p{Greek}" * (UNICODE_CLASSES_MAX + 1), False, id="too-many-unicode-classes"),
        pytest.param(r"\Q\pL\pL\pL\pL\pL\E", True, id="quoted-unicode-classes"),
        pytest.param(r"(\pL\pN\pS){20}.*", False, id="expands-to-a-large-program"),
        pytest.param("(.{0,500}a){2}", False, id="expands-to-many-repetitions"),
        pytest.param("|".join(f"orders-{number}-.*" for number in range(120)), True, id="many-alternatives"),
    ],
)
def test_expressions_are_bounded(pattern: str, is_accepted: bool) -> None:
    if is_accepted:
        check_pattern(pattern)
    else:
        with pytest.raises(KafkaError):
            check_pattern(pattern)


def test_error_about_a_long_expression_is_short() -> None:
    with pytest.raises(KafkaError) as caught:
        check_pattern("a" * 30_000)

    assert caught.value.message is not None
    assert len(caught.value.message) < 500
    assert caught.value.message.endswith("it has 30000 characters, more than 2048.")

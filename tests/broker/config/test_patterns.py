"""What an expression of a client may cost is bounded: to compile it, to keep it, and to match a string."""

import pytest
import re2

from ottla.config.client_matches import compile_matches
from ottla.config.key import InvalidConfigError
from ottla.config.patterns import (
    MATCH_COST_MAX,
    PATTERN_SIZE_MAX,
    UNICODE_CLASSES_MAX,
    InvalidPatternError,
    compile_pattern,
    compile_test,
)

STRING_BYTES_MAX = 32_767
"""Of a client's or a transactional id."""


@pytest.mark.parametrize(
    ("pattern", "is_accepted"),
    [
        pytest.param("a" * PATTERN_SIZE_MAX, True, id="longest"),
        pytest.param("a" * (PATTERN_SIZE_MAX + 1), False, id="too-long"),
        pytest.param(r"\p{Greek}" * UNICODE_CLASSES_MAX, True, id="most-unicode-classes"),
        pytest.param(r"\P{Greek}" * (UNICODE_CLASSES_MAX + 1), False, id="too-many-unicode-classes"),
        pytest.param(r"\Q" + r"\pL" * 5 + r"\E", True, id="quoted-unicode-classes"),
        pytest.param(r"(\pL\pN\pS){20}.*", False, id="expands-to-a-large-program"),
        pytest.param(r"a\C", False, id="byte-of-re2"),
        pytest.param("a(", False, id="syntax"),
    ],
)
@pytest.mark.parametrize("compile_it", [compile_pattern, compile_test])
def test_expressions_are_bounded(compile_it: object, pattern: str, is_accepted: bool) -> None:
    assert callable(compile_it)
    if is_accepted:
        compile_it(pattern)
    else:
        with pytest.raises(InvalidPatternError):
            compile_it(pattern)


def test_compiled_expressions_are_not_kept_after_their_use() -> None:
    for number in range(10):
        compile_pattern(f"a{number}")
        with pytest.raises(InvalidPatternError):
            compile_pattern(f"({number}")

    assert re2._Regexp._make.cache_info().currsize == 0


def test_test_is_of_the_whole_string() -> None:
    matches = compile_test("orders-[0-9ü]+")

    assert matches("orders-1ü")
    assert not matches("my-orders-1")
    assert not matches("orders-1 ")


def test_any_string_matches_all() -> None:
    assert compile_test(".*")("a" * STRING_BYTES_MAX)


def test_string_that_would_cost_too_much_does_not_match() -> None:
    pattern = "a{0,1000}"
    matches, size = compile_test(pattern), compile_pattern(pattern).programsize
    longest = MATCH_COST_MAX // size
    assert longest < 1_000

    assert matches("a" * longest)
    assert not matches("a" * (longest + 1))


@pytest.mark.parametrize(
    ("patterns", "is_accepted"),
    [
        pytest.param(["client_id=" + "a" * (PATTERN_SIZE_MAX - 10)], True, id="longest"),
        pytest.param(["client_id=" + "a" * (PATTERN_SIZE_MAX - 9)], False, id="too-long"),
        pytest.param(["client_id=" + "a" * 1_100, "client_software_name=b" * 1_000], False, id="too-long-together"),
        pytest.param([r"client_id=\pL"] * UNICODE_CLASSES_MAX, True, id="most-unicode-classes"),
        pytest.param([r"client_id=\pL"] * (UNICODE_CLASSES_MAX + 1), False, id="too-many-unicode-classes"),
    ],
)
def test_patterns_of_a_subscription_are_bounded_together(patterns: list[str], is_accepted: bool) -> None:
    if is_accepted:
        assert set(compile_matches(patterns)) == {"client_id"}
    else:
        with pytest.raises(InvalidConfigError, match="Illegal client matching pattern: it has"):
            compile_matches(patterns)

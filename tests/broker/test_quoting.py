"""Quoted strings of clients stay on one line, in quotes, and short."""

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.quoting import (
    MESSAGE_CHARACTERS_MAX,
    cut_message,
    cut_name,
    describe_error,
    escape_unprintable,
    one_line,
    quoted,
)
from ottla.types import Endpoint


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("orders", "'orders'"), ("a\nb", "'a\\nb'"), ("\u202e", "'\\u202e'"), ("x" * 100, f"'{'x' * 100}'")],
    ids=["plain", "line-break", "turned-around", "as-long-as-may-be"],
)
def test_string_is_quoted_in_ascii_on_one_line(sent: str, expected: str) -> None:
    assert quoted(sent) == expected


def test_quoted_string_is_cut_at_100_characters() -> None:
    assert quoted("x" * 101) == f"'{'x' * 100}...'"


@pytest.mark.parametrize("character", ["\n", "\r", "\x00", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\U000e0001"])
def test_unprintable_characters_are_escaped_and_letters_kept(character: str) -> None:
    escaped = escape_unprintable(f"caf\u00e9 'a'{character}\"b\"")

    assert escaped.isprintable()
    assert escaped.startswith("caf\u00e9 'a'\\")
    assert escaped.endswith('"b"')


def test_only_names_above_the_legal_length_are_cut() -> None:
    assert cut_name("t" * 249) == "t" * 249
    assert cut_name("t" * 32_767) == "t" * 300 + "..."


def test_error_message_fits_each_response_with_any_quoted_string() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "\U0001f600" * 32_767)

    assert error.message == cut_message("\U0001f600" * 32_767)
    assert len((error.message or "").encode()) < 4 * (MESSAGE_CHARACTERS_MAX + 3) < 32_767


def test_error_is_escaped_in_the_log_and_unchanged_for_the_client() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "no such\ngroup")

    assert str(error) == "INVALID_REQUEST: no such\\ngroup"
    assert error.message == "no such\ngroup"


def test_one_line_is_cut_before_it_is_escaped() -> None:
    assert len(one_line("\n" * 100_000)) <= 2 * (MESSAGE_CHARACTERS_MAX + 3)


def test_address_of_a_peer_cannot_forge_a_log_line() -> None:
    assert str(Endpoint("a\nb", 9092)) == "a\\nb:9092"
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"


def test_unexpected_error_is_described_on_one_line_with_its_place() -> None:
    def divide() -> float:
        raise ZeroDivisionError("a\nb" * 1_000)

    with pytest.raises(ZeroDivisionError) as raised:
        divide()

    described = describe_error(raised.value)
    assert described.startswith("ZeroDivisionError: 'a\\nba\\nb")
    assert " at test_quoting.py:" in described
    assert described.endswith(" in divide")
    assert len(described) < 400

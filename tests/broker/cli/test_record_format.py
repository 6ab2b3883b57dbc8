"""Percent verbs: formatting of records, and parsing of lines."""

import click
import pytest

from ottla.cli.record_format import Parsed, compile_reader, compile_writer, iso_time, unescape
from ottla.client.consumer import ConsumedRecord

RECORD = ConsumedRecord("t", 3, 47, 1_700_000_000_123, b"k", b"v\xff", (("h", b"1"), ("n", None)))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("%t %p %o", b"t 3 47"),
        ("%k=%v\\n", b"k=v\xff\n"),
        ("%T %K %V %H", b"1 1 2 2"),
        ("%h", b"h=1,n="),
        ("%d %D", b"1700000000123 2023-11-14T22:13:20.123Z"),
        ("%i%%", b"9%"),
        ("a\\tb\\\\c\\0", b"a\tb\\c\0"),
        ("\u00e9", "\u00e9".encode()),
    ],
)
def test_record_is_written(text: str, written: bytes) -> None:
    assert compile_writer(text)(RECORD, 9) == written


def test_missing_key_and_value_are_empty() -> None:
    record = RECORD._replace(key=None, value=None)

    assert compile_writer("[%k|%v]")(record, 1) == b"[|]"


@pytest.mark.parametrize("text", ["%y", "%", "\\", "\\q"])
def test_unknown_verb_or_escape_is_rejected(text: str) -> None:
    with pytest.raises(click.UsageError, match="--format"):
        compile_writer(text)


@pytest.mark.parametrize(
    ("text", "line", "parsed"),
    [
        pytest.param("%v", b"a b", Parsed(None, b"a b", None, None), id="value"),
        pytest.param("%k:%v", b"a:b:c", Parsed(b"a", b"b:c", None, None), id="first-delimiter-counts"),
        pytest.param("%p %d %k\\t%v", b"3 99 k\tv", Parsed(b"k", b"v", 3, 99), id="numbers"),
        pytest.param("%k.%v", b"axb", None, id="delimiter-is-literal"),
        pytest.param("%p %v", b"x y", None, id="number-expected"),
    ],
)
def test_line_is_read(text: str, line: bytes, parsed: Parsed | None) -> None:
    assert compile_reader(text)(line) == parsed


@pytest.mark.parametrize("text", ["%t %v", "%v %v"], ids=["cannot-be-read", "stands-twice"])
def test_format_that_cannot_be_parsed_is_rejected(text: str) -> None:
    with pytest.raises(click.UsageError, match="may occur once"):
        compile_reader(text)


def test_delimiter_keeps_its_percent_signs() -> None:
    assert unescape("%\\t") == b"%\t"


def test_no_time_is_a_dash() -> None:
    assert iso_time(-1) == "-"


def test_time_after_the_year_9999_is_shown_as_it_is_stored() -> None:
    assert iso_time(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert iso_time(253_402_300_800_000) == "253402300800000"
    assert iso_time(2**63 - 1) == "9223372036854775807"


def test_line_with_a_timestamp_beyond_int64_does_not_match() -> None:
    read = compile_reader("%d %v")

    assert read(b"9223372036854775807 x") == Parsed(None, b"x", None, 2**63 - 1)
    assert read(b"9223372036854775808 x") is None

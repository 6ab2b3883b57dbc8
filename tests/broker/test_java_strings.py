"""Strings as Java counts and compares them."""

from ottla.java_strings import string_length, string_order


def test_strings_are_ordered_by_utf16_code_units() -> None:
    assert sorted(["\uffff", "\U0001f600", "10", "2"], key=string_order) == ["10", "2", "\U0001f600", "\uffff"]


def test_characters_beyond_the_bmp_count_twice() -> None:
    assert [string_length(text) for text in ("", "a\uffff", "\U0001f600", "\ud83d")] == [0, 2, 2, 1]

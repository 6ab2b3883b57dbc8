"""Java's properties syntax, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.properties import format_properties, parse_properties
from ottla.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        pytest.param("a=b", {"a": "b"}, id="equals"),
        pytest.param("a:b", {"a": "b"}, id="colon"),
        pytest.param("a b", {"a": "b"}, id="blank"),
        pytest.param("  a = b ", {"a": "b "}, id="blanks-after-the-value-stay"),
        pytest.param("a", {"a": ""}, id="key-alone"),
        pytest.param("a=", {"a": ""}, id="empty-value"),
        pytest.param("=b", {"": "b"}, id="empty-key"),
        pytest.param("a==b", {"a": "=b"}, id="only-the-first-separator-counts"),
        pytest.param("# c\n! d\n\na=1", {"a": "1"}, id="comments-and-blank-lines"),
        pytest.param("a=1#x", {"a": "1#x"}, id="no-comment-after-a-value"),
        pytest.param("a=1\na=2", {"a": "2"}, id="last-one-counts"),
        pytest.param("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}, id="continued"),
        pytest.param("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}, id="two-backslashes-do-not-continue"),
        pytest.param("a=1\\\n#2", {"a": "1#2"}, id="continuation-is-no-comment"),
        pytest.param("a=x\\", {"a": "x"}, id="continued-into-the-end"),
        pytest.param("a\\ b=\\tc\\n\\u00e9\\q", {"a b": "\tc\n\u00e9q"}, id="escapes"),
        pytest.param("a\\=b\\:c=d", {"a=b:c": "d"}, id="escaped-separators"),
        pytest.param("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}, id="all-line-ends"),
    ],
)
def test_text_is_parsed_as_in_java(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_incomplete_escape_names_its_line() -> None:
    with pytest.raises(ConfigurationError, match="line 2"):
        parse_properties("a=1\nb=\\u12")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_formatted_properties_parse_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties

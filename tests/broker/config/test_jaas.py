"""JAAS entries: parsed as in Java; errors name the position, never the value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.jaas import parse_jaas
from ottla.errors import ConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(f"{PLAIN} required;", {}, id="no-options"),
        pytest.param(f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}, id="quoted"),
        pytest.param(f"{PLAIN} required username=a password='b c' ;", {"username": "a", "password": "b c"}, id="bare"),
        pytest.param(f'{PLAIN} REQUIRED user_a-b="1" user_c$="2";', {"user_a-b": "1", "user_c$": "2"}, id="names"),
        pytest.param(f'{PLAIN} required\n  a="1"\n  b="2";\n', {"a": "1", "b": "2"}, id="several-lines"),
        pytest.param(f'{PLAIN} required a = "=;" ;', {"a": "=;"}, id="signs-in-quotes"),
        pytest.param(f'{PLAIN} required a="x\\"y\\\\z\\n\\101";', {"a": 'x"y\\z\nA'}, id="escapes"),
        pytest.param(f'{PLAIN} required /* a */ a="1"; // end', {"a": "1"}, id="comments"),
        pytest.param(f'{PLAIN} required a="1" a="2";', {"a": "2"}, id="the-last-one-counts"),
        pytest.param(f"{PLAIN} required a=x/y;", {"a": "x/y"}, id="a-slash"),
    ],
)
def test_entry_is_parsed(text: str, options: dict[str, str]) -> None:
    module = parse_jaas("key", text)

    assert module.options == options
    assert module.is_for("PLAIN")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "key is empty"),
        ("  // nothing", "key is empty"),
        ("= required;", "Login module not specified"),
        (f"{PLAIN};", "control flag not specified"),
        (f'{PLAIN} username="hunter2";', "control flag not specified"),
        (f'{PLAIN} required username="hunter2"', "not terminated by semi-colon"),
        (f"{PLAIN} required username;", "Value not specified"),
        (f"{PLAIN} required username=;", "Value not specified"),
        (f'{PLAIN} required username "hunter2";', "Value not specified"),
        (f'{PLAIN} required password="hunter2', "a quote or comment is not closed"),
        (f'{PLAIN} required password="a"; {PLAIN} required;', "should be 1 module"),
    ],
)
def test_syntax_error_names_no_secret(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as error:
        parse_jaas("key", text)

    assert "key" in str(error.value)
    assert "hunter2" not in str(error.value)


@given(text=st.text(alphabet="ab =;\"'\\/*\n", max_size=60))
def test_any_text_is_an_entry_or_a_configuration_error(text: str) -> None:
    try:
        module = parse_jaas("key", f"{PLAIN} required {text}")
    except ConfigurationError:
        return
    assert module.is_for("PLAIN")


def test_entry_repr_shows_no_secret() -> None:
    assert "hunter2" not in repr(parse_jaas("key", f'{PLAIN} required password="hunter2";'))

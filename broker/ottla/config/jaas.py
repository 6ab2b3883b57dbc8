"""The value of ``sasl.jaas.config``: one login module with its options, in the syntax of Java's JAAS.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="..." user_alice="...";

Values may be bare words, or quoted with ``"`` or ``'`` and backslash escapes as in Java. Errors name what is wrong and
where, by position and by key, and never show a value: values are secrets.
Source: JaasConfig and JaasContext of Apache Kafka 4.3; java.io.StreamTokenizer.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.errors import ConfigurationError
from ottla.sasl.registry import MECHANISMS

CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKENS: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<sign>[=;])|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'"""
    r"""|(?P<word>[^\s=;"'/]+(?:/(?![/*])[^\s=;"'/]*)*)""",
    re.DOTALL,
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True, repr=False)
class LoginModule:
    """One entry: the Java class that Kafka would load, and its options. Its repr shows no secret."""

    name: str
    options: Mapping[str, str]

    def is_for(self, mechanism: str) -> bool:
        """Return whether the class is the mechanism's, in any package."""
        return self.name.rpartition(".")[2] == MECHANISMS[mechanism].login_module.rpartition(".")[2]

    def name_and_password(self, key: str, hint: str) -> tuple[str, str]:
        """Return the user name and the password of the entry.

        Raises:
            ConfigurationError: one is missing; the message names ``key`` and ends with ``hint``.
        """
        missing = [name for name in ("username", "password") if not self.options.get(name)]
        if missing:
            raise ConfigurationError(f"{key} has no {' and no '.join(missing)}{hint}")
        return self.options["username"], self.options["password"]


class _Token(NamedTuple):
    text: str
    is_sign: bool
    position: int


def parse_jaas(key: str, text: str) -> LoginModule:
    """Read the only entry of ``text``, which the configuration gives for ``key``.

    Raises:
        ConfigurationError: the syntax is wrong; the message names ``key``, what is missing and the position.
    """
    tokens = list(_tokens(key, text))
    if not tokens:
        raise ConfigurationError(f"{key} is empty: {_FORM}")
    if tokens[0].is_sign:
        raise ConfigurationError(f"{key}: Login module not specified in JAAS config. {_FORM}")
    if len(tokens) < 2 or tokens[1].text.lower() not in CONTROL_FLAGS:
        raise ConfigurationError(
            f"{key}: Login module control flag not specified in JAAS config: {', '.join(CONTROL_FLAGS)} must follow "
            "the login module's class"
        )
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and not tokens[position].is_sign:
        name = tokens[position].text
        rest = tokens[position + 1 : position + 3]
        if len(rest) < 2 or rest[0].text != "=" or not rest[0].is_sign or rest[1].is_sign:
            raise ConfigurationError(
                f"{key}: Value not specified for the option that starts at character {tokens[position].position} of "
                f"the JAAS config, after {len(options)} whole options; each is NAME=VALUE, values with blanks or "
                "signs in quotes"
            )
        options[name] = rest[1].text
        position += 3
    if position == len(tokens) or tokens[position].text != ";":
        raise ConfigurationError(f"{key}: JAAS config entry not terminated by semi-colon")
    if position + 1 < len(tokens):
        raise ConfigurationError(f"{key}: JAAS config property contains several login modules, should be 1 module")
    return LoginModule(tokens[0].text, options)


_FORM: Final = 'it must be `LOGIN_MODULE_CLASS required NAME="VALUE" ...;`'


def _tokens(key: str, text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            raise ConfigurationError(
                f"{key}: the JAAS config cannot be read at character {position}: a quote or comment is not closed there"
            )
        if match["sign"]:
            yield _Token(match["sign"], True, position)
        elif match["skip"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield _Token(match["word"] if quoted is None else _unescape(quoted), False, position)
        position = match.end()


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", plain, text, flags=re.DOTALL)

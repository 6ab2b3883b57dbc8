"""From a certificate's distinguished name to a principal: ``ssl.principal.mapping.rules``.

Rules are separated by commas, and the first one that matches counts: ``DEFAULT`` is the whole name, and
``RULE:pattern/replacement/[LU]`` is the replacement with ``$1`` ... expanded, in lower (L) or upper (U) case.
Source: SslPrincipalMapper of Apache Kafka, with Java's patterns: those that Python cannot express are rejected.
"""

import re
import warnings
from dataclasses import dataclass

from ottla.errors import ConfigurationError
from ottla.wire.acl_codes import ANONYMOUS_PRINCIPAL

KEY = "ssl.principal.mapping.rules"

_SAID_CHARS_MAX = 200
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"


class NoMatchingRuleError(Exception):
    """No rule matches; the message contains the distinguished name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; ``pattern`` is None for DEFAULT."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        name = self.pattern.sub(lambda match: _expand(self.replacement, match), distinguished_name)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name


class PrincipalMapping:
    """The rules of one listener; if none matches, a client with a certificate is rejected.

    Raises of the constructor:
        ConfigurationError: a rule cannot be parsed; the message names it.
    """

    def __init__(self, rules: str) -> None:
        self._rules = tuple(_parse(rules.strip()))

    def principal(self, distinguished_name: str | None) -> str:
        """Return ``User:name`` for the subject of a certificate; `ANONYMOUS_PRINCIPAL` for a client without one.

        Raises:
            NoMatchingRuleError: no rule matches; the client is rejected.
        """
        if distinguished_name is None:
            return ANONYMOUS_PRINCIPAL
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return f"User:{name}"
        raise NoMatchingRuleError(f"no rule of {KEY} matches {distinguished_name[:_SAID_CHARS_MAX]!a}")


def _parse(text: str) -> list[_Rule]:
    rules = []
    for split in re.finditer(rf"\s*({_RULE})\s*(?:,\s*|$)", text):
        rule = split[1]
        match = re.match(_RULE, rule)
        if match is None or match.end() != len(rule):
            unread = rule if match is None else rule[match.end() :]
            raise ConfigurationError(
                f"{KEY} has the rule {rule!r} with {unread!r} in it, which cannot be parsed; a rule is DEFAULT or "
                "RULE:pattern/replacement/, optionally followed by L or U"
            )
        if match[1] is not None:
            rules.append(_Rule())
        elif match[2] is not None:
            rules.append(_Rule(_compile(match[2], rule), match[3], match[4]))
    return rules


def _compile(pattern: str, rule: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            # Python warns about patterns that Java interprets differently: [a-z&&[^x]].
            warnings.simplefilter("error")
            # Java's named groups have no P.
            return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.ASCII)
    except (re.error, Warning) as error:
        raise ConfigurationError(f"{KEY} has the rule {rule!r}, whose pattern is not valid: {error}") from error


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Expand ``$1``; references to groups that do not exist, and escaped characters, are kept."""
    parts, position = [], 0
    while position < len(replacement):
        sign, behind = replacement[position], replacement[position + 1 : position + 2]
        position += 1
        if sign == "\\" and behind:
            parts.append(behind)
            position += 1
        elif sign == "$" and behind.isdigit() and int(behind) <= len(match.groups()):
            group, position = _read_group(replacement, position, len(match.groups()))
            parts.append(match[group] or "")
        else:
            parts.append(sign)
    return "".join(parts)


def _read_group(replacement: str, position: int, groups: int) -> tuple[int, int]:
    """Return the group number at ``position`` and its end; as in Java, only as many digits as name a group."""
    group = 0
    while replacement[position : position + 1].isdigit() and group * 10 + int(replacement[position]) <= groups:
        group = group * 10 + int(replacement[position])
        position += 1
    return group, position

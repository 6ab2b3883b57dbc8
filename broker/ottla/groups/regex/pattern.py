"""`check_pattern`, `compile_pattern`: the expressions that Kafka's RE2J accepts, compiled by RE2, with RE2J's messages.

Three bounds are ours, so that neither compiling nor matching one name takes more than 3 ms: RE2 expands repetitions and
Unicode classes, so a short expression may become a large program. Real expressions are far below: topic names are
ASCII.

Source: Utils.throwIfRegularExpressionIsInvalid of Apache Kafka 4.3.1; PatternSyntaxException of RE2J 1.8.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.errors import ErrorCode, KafkaError
from ottla.quoting import cut_name

if TYPE_CHECKING:
    import re2

PATTERN_SIZE_MAX: Final = 2048
"""Characters of an expression. 2,048 optional ones are compiled in 2.3 ms."""
UNICODE_CLASSES_MAX: Final = 4
r"""``\p`` and ``\P`` in an expression. Each takes 0.5 ms, with ``(?i)`` twice as long, before the size is known."""
MEMORY_SIZE_BYTES_MAX: Final = 65536
"""Memory of a compiled expression; RE2 rejects programs of more than some 4,000 instructions with it."""

_RE2J_MESSAGES: Final = {
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "invalid UTF-8": "invalid escape sequence",
}
_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


class InvalidPatternError(Exception):
    """The message is RE2J's description, or says which bound is exceeded."""


def check_pattern(pattern: str) -> None:
    """Reject an expression that Kafka rejects, or that is above one of the bounds.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    error = describe_invalid(pattern)
    if error is not None:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{cut_name(pattern)}` is not a valid regular expression: {error}.",
        )


def describe_invalid(pattern: str) -> str | None:
    """Return why an expression is invalid, or None if it is valid."""
    try:
        compile_pattern(pattern)
    except InvalidPatternError as error:
        return str(error)
    return None


def compile_pattern(pattern: str) -> "re2._Regexp[str]":
    """Return an expression compiled, to match whole names without their groups.

    Raises:
        InvalidPatternError: Kafka rejects the expression, or it is above one of the bounds.
    """
    if len(pattern) > PATTERN_SIZE_MAX:
        raise InvalidPatternError(f"it has {len(pattern)} characters, more than {PATTERN_SIZE_MAX}")
    escapes = list(_escapes(pattern))
    unicode_classes = escapes.count("p") + escapes.count("P")
    if unicode_classes > UNICODE_CLASSES_MAX:
        raise InvalidPatternError(f"it has {unicode_classes} Unicode classes, more than {UNICODE_CLASSES_MAX}")
    compiled = _compiled(pattern)
    if "C" in escapes:
        # A byte in RE2, which RE2J does not have.
        raise InvalidPatternError("invalid escape sequence")
    return compiled


def _escapes(pattern: str) -> Iterator[str]:
    r"""Yield the character after each backslash, but not of text that is quoted by ``\Q`` and ``\E``."""
    for found in _ESCAPE.finditer(pattern):
        if found[1] is not None:
            yield found[1]


def _compiled(pattern: str) -> "re2._Regexp[str]":
    import re2  # only here: few groups have expressions

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_SIZE_BYTES_MAX
    # With captures RE2 matches several times slower.
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPatternError(_description(str(error.args[0], "utf-8", "replace"))) from None
    finally:
        # Its cache would hold the expressions of clients.
        re2.purge()


def _description(message: str) -> str:
    """Return RE2J's description of an error of RE2, whose message ends with the part of the expression."""
    kind, _, part = message.partition(": ")
    if kind == "pattern too large - compile failed":
        return "it is too large when it is expanded"
    if kind == "invalid perl operator" and part.startswith("(?<"):
        return "invalid named capture"
    return _RE2J_MESSAGES.get(kind, kind)

"""`check_pattern`, `compile_subscription`: expressions that Kafka's RE2J accepts, with its messages; RE2 compiles them.

With the bounds of `ottla.config.patterns` neither compiling nor matching one name takes more than 3 ms: topic names are
short.

Source: Utils.throwIfRegularExpressionIsInvalid of Apache Kafka 4.3.1; PatternSyntaxException of RE2J 1.8.
"""

from typing import TYPE_CHECKING, Final

from ottla.config.patterns import InvalidPatternError, compile_pattern
from ottla.errors import ErrorCode, KafkaError
from ottla.quoting import cut_name

if TYPE_CHECKING:
    import re2

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
        compile_subscription(pattern)
    except InvalidPatternError as error:
        return str(error)
    return None


def compile_subscription(pattern: str) -> "re2._Regexp[str]":
    """Return an expression compiled, to match whole names.

    Raises:
        InvalidPatternError: Kafka rejects the expression, or it is above a bound; the message is RE2J's, without the
            expression.
    """
    try:
        return compile_pattern(pattern)
    except InvalidPatternError as error:
        raise InvalidPatternError(_description(str(error))) from None


def _description(message: str) -> str:
    """Return RE2J's description of an error of RE2, whose message ends with the part of the expression."""
    kind, _, part = message.partition(": ")
    if kind == "pattern too large - compile failed":
        return "it is too large when it is expanded"
    if kind == "invalid perl operator" and part.startswith("(?<"):
        return "invalid named capture"
    return _RE2J_MESSAGES.get(kind, kind)

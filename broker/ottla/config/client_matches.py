"""Patterns that choose the clients of a client-metrics subscription: ``match=client_id=app-.*,...`` (KIP-714).

Source: ClientMetricsConfigs.parseMatchingPatterns of Apache Kafka 4.3, whose error text this is.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.config.key import InvalidConfigError
from ottla.config.patterns import InvalidPatternError, check_size, compile_test
from ottla.quoting import cut_name

MATCHABLE: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""The attributes of a client that a pattern may name."""


def compile_matches(patterns: Sequence[str]) -> dict[str, Callable[[str], bool]]:
    """Return, by attribute, the test of the whole value; of two patterns for one attribute the last counts.

    Raises:
        InvalidConfigError: not ``ATTRIBUTE=PATTERN`` with exactly one equals sign, an unknown attribute, no pattern
            of RE2, or patterns that are too large together. Kafka accepts what Java's expressions have beyond RE2,
            look-arounds and back-references.
    """
    try:
        check_size(patterns)
    except InvalidPatternError as error:
        raise InvalidConfigError(f"Illegal client matching pattern: {error}") from None
    tests = {}
    for pattern in patterns:
        attribute, _, expression = pattern.partition("=")
        attribute = attribute.strip()
        # As Java's split: empty parts at the end do not count.
        if attribute not in MATCHABLE or not expression.strip("=") or "=" in expression.rstrip("="):
            raise InvalidConfigError(f"Illegal client matching pattern: {cut_name(pattern)}")
        try:
            tests[attribute] = compile_test(expression.rstrip("=").strip())
        except InvalidPatternError:
            raise InvalidConfigError(f"Illegal client matching pattern: {cut_name(pattern)}") from None
    return tests

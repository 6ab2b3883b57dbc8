r"""Regular expressions of clients and administrators: compiled by RE2, with bounds on what they may cost.

RE2 matches in time linear in the length of a string, but it compiles in proportion to the program that the expression
expands to: a repetition or a Unicode class of a few characters may become thousands of instructions. The bounds are
ours, so that compiling takes 4 ms at most. Real expressions are far below.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re2

PATTERN_SIZE_MAX: Final = 2048
"""Characters of an expression. 2,048 optional ones are compiled in 2.3 ms."""
UNICODE_CLASSES_MAX: Final = 4
r"""``\p`` and ``\P`` in an expression. Each takes 0.5 ms, with ``(?i)`` twice as long, before the size is known."""
MEMORY_SIZE_BYTES_MAX: Final = 65536
"""Memory of a compiled expression; RE2 rejects programs of more than some 4,000 instructions with it."""
MATCH_COST_MAX: Final = 400_000
"""Instructions of a program times bytes of a string: up to 4 ms where RE2 falls back to its slowest way, 9 ns for each.

Enough for ``.*``, of 12 instructions, with any string of the protocol, and for 1,600 instructions with 250 bytes.
"""

_ESCAPE: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


class InvalidPatternError(ValueError):
    """The message is RE2's, or says which bound is exceeded."""


def compile_pattern(pattern: str) -> "re2._Regexp[str]":
    r"""Return the compiled expression, to match whole strings without their groups.

    Raises:
        InvalidPatternError: RE2 cannot compile it, it is above a bound, or it has ``\C``: a byte in RE2, which neither
            Java nor RE2J has.
    """
    import re2  # only here: few nodes are sent expressions

    check_size([pattern])
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_SIZE_BYTES_MAX
    # With captures RE2 matches several times slower.
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidPatternError(str(error.args[0], "utf-8", "replace")) from None
    finally:
        # Its cache would hold the expressions of clients.
        re2.purge()
    if "C" in _escapes(pattern):
        raise InvalidPatternError("invalid escape sequence")
    return compiled


def compile_test(pattern: str) -> Callable[[str], bool]:
    """Return the test of a string against the whole of ``pattern``; one above `MATCH_COST_MAX` fails it.

    Raises:
        InvalidPatternError: see `compile_pattern`.
    """
    compiled = compile_pattern(pattern)
    size_bytes_max = MATCH_COST_MAX // max(1, compiled.programsize)

    def matches(text: str) -> bool:
        # Bytes are matched three times as fast as strings.
        data = text.encode()
        return len(data) <= size_bytes_max and compiled.fullmatch(data) is not None

    return matches


def check_size(patterns: Iterable[str]) -> None:
    """Reject expressions that are too large together.

    Raises:
        InvalidPatternError: they have too many characters or Unicode classes.
    """
    size = unicode_classes = 0
    for pattern in patterns:
        size += len(pattern)
        if size <= PATTERN_SIZE_MAX:
            unicode_classes += sum(escape in "pP" for escape in _escapes(pattern))
    if size > PATTERN_SIZE_MAX:
        raise InvalidPatternError(f"it has {size} characters, more than {PATTERN_SIZE_MAX}")
    if unicode_classes > UNICODE_CLASSES_MAX:
        raise InvalidPatternError(f"it has {unicode_classes} Unicode classes, more than {UNICODE_CLASSES_MAX}")


def _escapes(pattern: str) -> Iterator[str]:
    r"""Yield the character after each backslash, but not of text that is quoted by ``\Q`` and ``\E``."""
    for found in _ESCAPE.finditer(pattern):
        if found[1] is not None:
            yield found[1]

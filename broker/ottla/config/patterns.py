"""Regular expressions of clients and administrators, compiled by RE2, whose matching time is linear."""

from collections.abc import Callable
from typing import Final

_MEMORY_BYTES: Final = 1 << 20


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return the test of a string against the whole of ``pattern``.

    Raises:
        ValueError: RE2 cannot compile it: a syntax error, too large, or a look-around or back-reference of Java.
    """
    import re2  # only here: few nodes are sent patterns

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(str(error)) from None
    return lambda text: compiled.fullmatch(text) is not None

"""ISO 8601 durations in values of configuration keys, as Java reads them.

Source: java.time.Duration.parse (OpenJDK 17).
"""

import re
from typing import Final

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS_S: Final = (1, 60, 60 * 60, 24 * 60 * 60)
_DIGITS_MAX: Final = 19
"""More never fit; Python converts no more than some thousand digits."""
_LONG: Final = range(-(2**63), 2**63)


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of ``PnDTnHnMn.nS``, rounded down; None if it is none, negative or too long."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, days, time, *parts, fraction = match.groups(default="")
    parts.insert(0, days)
    # Java reads a "t" without anything behind it, but no "T".
    if time == "T" or not any(parts) or any(len(part.lstrip("+-0")) > _DIGITS_MAX for part in parts):
        return None
    seconds = 0
    for part, unit_s in zip(reversed(parts), _UNITS_S, strict=True):
        part_s = int(part or 0) * unit_s
        seconds += part_s
        if part_s not in _LONG or seconds not in _LONG:
            return None
    nanoseconds = int(fraction.ljust(9, "0"))
    total_ns = seconds * 10**9 + (-nanoseconds if parts[-1].startswith("-") else nanoseconds)
    if sign == "-":
        total_ns = -total_ns
    return total_ns // 10**6 if total_ns >= 0 and total_ns // 10**9 in _LONG else None

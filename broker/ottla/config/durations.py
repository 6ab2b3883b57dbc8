"""ISO 8601 durations in values of configuration keys, without signs.

Source: java.time.Duration.parse (OpenJDK 17).
"""

import re
from typing import Final

_DURATION: Final = re.compile(
    r"P(?=.)(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?", re.IGNORECASE
)
_DIGITS_MAX: Final = 19
"""More never fit; Python converts no more than some thousand digits."""
_SECONDS_MAX: Final = 2**63 - 1


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of ``PnDTnHnMn.nS``, rounded down; None if it is none, or longer than Java's may be."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups(default="0")
    if any(len(part.lstrip("0")) > _DIGITS_MAX for part in parts):
        return None
    days, hours, minutes, seconds = map(int, parts)
    seconds += ((days * 24 + hours) * 60 + minutes) * 60
    return seconds * 1_000 + int(fraction.ljust(9, "0")) // 1_000_000 if seconds <= _SECONDS_MAX else None

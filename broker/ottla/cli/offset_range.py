"""The range of records that `ottla consume` shows: rpk's notation for offsets.

==============  ==========================================================================
``start``       from the first record (the default)
``end``         only new records
``:end``        from the first record to the current end, then stop
``47``          from offset 47; ``47:`` is the same
``10:20``       from 10 up to, but without, 20, then stop; ``:20`` from the first record
``+5``          5 after the first record
``-5``          the last 5
``@TIME``       from TIME; ``@TIME:`` the same; ``@TIME:TIME`` and ``@TIME:end`` up to there, then stop
==============  ==========================================================================

TIME is milliseconds or seconds since 1970, a date (``2026-01-31``), a date with time (``2026-01-31T12:00:00Z``), or a
duration before now (``-1h``, ``-30m``, ``-90s``, ``-7d``).
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from ottla.cli.durations import parse_duration_ms

_MILLISECONDS_FROM = 10**11
"""A number from here on is milliseconds: as seconds it would be after the year 5138."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition: an offset, a distance from an end, or a time. At most one of the fields is set."""

    offset: int | None = None
    after_start: int | None = None
    before_end: int | None = None
    timestamp_ms: int | None = None


START = Position(after_start=0)
END = Position(before_end=0)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Start and end of the range; ``stop`` None has no end."""

    begin: Position
    stop: Position | None = None


def parse_offset_range(text: str, *, now_ms: int) -> OffsetRange:
    """Read the notation of the module.

    Raises:
        click.BadParameter: ``text`` is not in that notation.
    """
    if text.startswith("@"):
        begin, stop = _split_times(text[1:])
        until = END if stop == "end" else Position(timestamp_ms=_time(stop, now_ms)) if stop else None
        return OffsetRange(Position(timestamp_ms=_time(begin, now_ms)), until)
    begin, colon, stop = text.partition(":")
    return OffsetRange(_position(begin, text) if begin else START, _position(stop, text) if colon and stop else None)


def _position(text: str, whole: str) -> Position:
    if text in ("start", "end"):
        return START if text == "start" else END
    match = re.fullmatch(r"([+-]?)(\d+)", text)
    if match is None:
        raise click.BadParameter(
            f"{whole!r} is not an offset; write start, end, 47, 10:20, +5, -5, @2026-01-31 or @-1h"
        )
    number = int(match[2])
    if match[1] == "+":
        return Position(after_start=number)
    return Position(before_end=number) if match[1] else Position(offset=number)


def _split_times(text: str) -> tuple[str, str]:
    """Split ``A:B``, where A and B may contain colons, as times do."""
    if not _is_time(text):
        for position in (index for index, character in enumerate(text) if character == ":"):
            begin, stop = text[:position], text[position + 1 :]
            if _is_time(begin) and (stop in ("", "end") or _is_time(stop)):
                return begin, stop
    return text, ""


def _is_time(text: str) -> bool:
    try:
        _time(text, 0)
    except click.BadParameter:
        return False
    return True


def _time(text: str, now_ms: int) -> int:
    if text.startswith("-") and (duration_ms := parse_duration_ms(text[1:])) is not None:
        return now_ms - duration_ms
    if text.isdigit() and len(text) != len("20260131"):
        number = int(text)
        return number if number >= _MILLISECONDS_FROM else number * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write 2026-01-31, 2026-01-31T12:00:00Z, -1h, or seconds or ms since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)

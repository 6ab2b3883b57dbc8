"""The gold table outside Spark: its row, its file, its digest, and the summary that a person reads."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

DELAYED_OVER_MINUTES = 15


class GoldRow(NamedTuple):
    """One origin in one hour. ``hour`` is the window's start, UTC, as ``2013-01-01T10:00:00Z``; delays are minutes.

    A flight counts in the hour of its scheduled departure. Maximum and ratios are None where nothing departed.
    """

    origin: str
    hour: str
    flights: int
    departed: int
    cancelled: int
    arrived: int
    dep_delay_minutes_sum: int
    dep_delay_minutes_max: int | None
    arr_delay_minutes_sum: int
    delayed_over_15: int
    dep_delay_minutes_mean: float | None
    delayed_share: float | None


class GoldFileError(ValueError):
    """A file that `write_gold` has not written."""


def write_gold(path: Path, rows: Iterable[GoldRow]) -> None:
    """Write ``rows`` as CSV with a header; None is empty, and floats are written so that they read back the same."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(GoldRow._fields)
        writer.writerows(rows)


def read_gold(path: Path) -> list[GoldRow]:
    """Read a file that `write_gold` has written.

    Raises:
        GoldFileError: another header or a cell that is not a number.
    """
    with path.open(encoding="utf-8", newline="") as stream:
        lines = csv.reader(stream)
        if tuple(next(lines, ())) != GoldRow._fields:
            raise GoldFileError(f"{path} is not a gold table: its first line is not {','.join(GoldRow._fields)}")
        try:
            return [_row(line) for line in lines]
        except ValueError as failure:
            raise GoldFileError(f"{path} line {lines.line_num}: {failure}") from failure


def _row(line: list[str]) -> GoldRow:
    if len(line) != len(GoldRow._fields):
        raise ValueError(f"{len(line)} cells, must be {len(GoldRow._fields)}")
    origin, hour, *cells = line
    counts = [int(cell) if cell else None for cell in cells[:8]]
    ratios = [float(cell) if cell else None for cell in cells[8:]]
    return GoldRow(origin, hour, *counts, *ratios)  # type: ignore[arg-type]


def gold_digest(rows: Iterable[GoldRow]) -> str:
    """Return the SHA-256 of the rows in order of hour and origin: two equal tables, however computed, have the same."""
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda row: (row.hour, row.origin)):
        digest.update(repr(tuple(row)).encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginSummary:
    """One airport's year; delays in minutes."""

    origin: str
    flights: int
    cancelled: int
    dep_delay_minutes_mean: float
    delayed_share: float
    worst_hour: str
    worst_hour_dep_delay_minutes_mean: float


# Means over fewer departures than this are not meaningful for an hour.
_WORST_HOUR_DEPARTED_MIN = 5


def summarize(rows: Sequence[GoldRow]) -> list[OriginSummary]:
    """Return one summary per origin, in order of name."""
    return [_summary([row for row in rows if row.origin == origin]) for origin in sorted({row.origin for row in rows})]


def _summary(rows: list[GoldRow]) -> OriginSummary:
    departed = sum(row.departed for row in rows)
    busy = [row for row in rows if row.departed >= _WORST_HOUR_DEPARTED_MIN] or rows
    worst = max(busy, key=lambda row: row.dep_delay_minutes_mean or 0.0)
    return OriginSummary(
        origin=rows[0].origin,
        flights=sum(row.flights for row in rows),
        cancelled=sum(row.cancelled for row in rows),
        dep_delay_minutes_mean=sum(row.dep_delay_minutes_sum for row in rows) / departed if departed else 0.0,
        delayed_share=sum(row.delayed_over_15 for row in rows) / departed if departed else 0.0,
        worst_hour=worst.hour,
        worst_hour_dep_delay_minutes_mean=worst.dep_delay_minutes_mean or 0.0,
    )


def summary_lines(rows: Sequence[GoldRow]) -> list[str]:
    """Return the summary as aligned text lines, header first."""
    lines = ["origin  flights  cancelled  mean delay  late > 15 min  worst hour (UTC)      its mean delay"]
    for each in summarize(rows):
        lines.append(
            f"{each.origin:<6}  {each.flights:>7,}  {each.cancelled:>9,}  {each.dep_delay_minutes_mean:>6.1f} min"
            f"  {each.delayed_share:>13.1%}  {each.worst_hour:<20}  {each.worst_hour_dep_delay_minutes_mean:>10.0f} min"
        )
    return lines

"""Draw the gold table: how delay builds up over a day at each airport, and how many flights that day carries.

Usage: ``python -m ottla_spark.plot --gold gold.csv --output delays.png``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ottla_spark.flights import NEW_YORK
from ottla_spark.table import GoldFileError, GoldRow, read_gold

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Three hues that stay apart for colour-blind eyes and in print; every line also carries its name.
_COLOURS = {"EWR": "#0072b2", "JFK": "#d55e00", "LGA": "#009e73"}
_OTHER_COLOUR = "#666666"
_NAMES = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
_INK, _FAINT, _PAPER = "#222222", "#8a8a8a", "#fcfcfa"
# The mean of hours with fewer departures in the whole year is noise: at least one a day is required.
_DEPARTED_MIN = 365
_NAMES_AT_HOUR = 23.6


@dataclass(slots=True)
class HourOfDay:
    """Sums over all days of the year for one local hour of one origin."""

    flights: int = 0
    departed: int = 0
    dep_delay_minutes_sum: int = 0
    days: set[str] = field(default_factory=set)


def by_hour_of_day(rows: Sequence[GoldRow]) -> dict[str, dict[int, HourOfDay]]:
    """Return, per origin and local hour of the day, the sums of gold's rows."""
    origins: dict[str, dict[int, HourOfDay]] = {}
    for row in rows:
        local = datetime.fromisoformat(row.hour).astimezone(NEW_YORK)
        hour = origins.setdefault(row.origin, {}).setdefault(local.hour, HourOfDay())
        hour.flights += row.flights
        hour.departed += row.departed
        hour.dep_delay_minutes_sum += row.dep_delay_minutes_sum
        hour.days.add(local.date().isoformat())
    return {origin: dict(sorted(origins[origin].items())) for origin in sorted(origins)}


def plot(rows: Sequence[GoldRow], path: Path) -> None:
    """Write the picture of ``rows`` to ``path``; its suffix chooses the format, 1600 by 1000 pixels for PNG."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    hours = by_hour_of_day(rows)
    days = len({day for origin in hours.values() for hour in origin.values() for day in hour.days})
    with pyplot.rc_context({"font.size": 12, "text.color": _INK, "axes.labelcolor": _INK, "svg.hashsalt": "ottla"}):
        figure, (delay, flights) = pyplot.subplots(
            2, 1, figsize=(10.5, 6.5625), sharex=True, height_ratios=(3, 1.5), facecolor=_PAPER
        )
        _draw_delays(delay, hours)
        _draw_flights(flights, hours, days)
        _title(figure, rows)
        figure.subplots_adjust(left=0.07, right=0.845, top=0.82, bottom=0.095, hspace=0.2)
        figure.savefig(path, dpi=1600 / 10.5, facecolor=_PAPER)
        pyplot.close(figure)


def _draw_delays(axes: Axes, hours: dict[str, dict[int, HourOfDay]]) -> None:
    ends = []
    for origin, by_hour in hours.items():
        known = {hour: sums for hour, sums in by_hour.items() if sums.departed >= _DEPARTED_MIN}
        means = [sums.dep_delay_minutes_sum / sums.departed for sums in known.values()]
        axes.plot(list(known), means, color=_COLOURS.get(origin, _OTHER_COLOUR), linewidth=2.6, solid_capstyle="round")
        if means:
            ends.append((means[-1], origin))
    _label_ends(axes, ends)
    axes.axhline(0, color=_FAINT, linewidth=0.8)
    axes.set_title("Mean departure delay, minutes", loc="left", fontsize=12, pad=8)
    _clean(axes)


def _label_ends(axes: Axes, ends: list[tuple[float, str]]) -> None:
    """Name each line right of its end, in one column, pushed apart where lines end close together."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.075
    at = float("-inf")
    for mean, origin in sorted(ends):
        at = max(mean, at + gap)
        colour = _COLOURS.get(origin, _OTHER_COLOUR)
        label = f"{origin} {_NAMES.get(origin, '')}".rstrip()
        axes.text(_NAMES_AT_HOUR, at, label, va="center", color=colour, fontweight="bold", clip_on=False)


def _draw_flights(axes: Axes, hours: dict[str, dict[int, HourOfDay]], days: int) -> None:
    bottom = [0.0] * 24
    for origin, by_hour in hours.items():
        heights = [by_hour[hour].flights / days if hour in by_hour else 0.0 for hour in range(24)]
        colour = _COLOURS.get(origin, _OTHER_COLOUR)
        axes.bar(range(24), heights, bottom=bottom, width=0.78, color=colour, edgecolor=_PAPER, linewidth=0.6)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    axes.set_title("Scheduled departures per day", loc="left", fontsize=12, pad=8)
    axes.set_xticks(range(5, 24, 2), [f"{hour:02d}:00" for hour in range(5, 24, 2)])
    axes.set_xlim(4.4, 23.5)
    axes.set_xlabel("scheduled hour of departure, New York time", color=_FAINT, fontsize=11)
    _clean(axes)


def _clean(axes: Axes) -> None:
    axes.set_facecolor(_PAPER)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#e4e4e0", linewidth=0.9)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=_FAINT)


def _title(figure: Figure, rows: Sequence[GoldRow]) -> None:
    flights = sum(row.flights for row in rows)
    local = sorted({datetime.fromisoformat(row.hour).astimezone(NEW_YORK).year for row in rows})
    years = "-".join(str(year) for year in (local[0], local[-1])[: len(local)])
    figure.text(0.07, 0.935, "Leave New York in the morning", fontsize=19, fontweight="bold")
    figure.text(
        0.07,
        0.893,
        f"{flights:,} flights of {years}, by Kafka's protocol into Spark's gold table: {len(rows):,} hourly windows",
        color=_FAINT,
    )


def main(arguments: list[str] | None = None) -> int:
    """Draw a gold file; return 0, or 1 with a message on stderr."""
    parser = argparse.ArgumentParser(prog="python -m ottla_spark.plot", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gold", type=Path, required=True, metavar="FILE", help="what the pipeline's --gold wrote")
    parser.add_argument("--output", "-o", type=Path, default=Path("delays.png"), metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        rows = read_gold(options.gold)
        if not rows:
            raise GoldFileError(f"{options.gold} has no rows: nothing to draw")
        plot(rows, options.output)
    except (GoldFileError, OSError) as failure:
        sys.stderr.write(f"error: {failure}\n")
        return 1
    sys.stdout.write(f"{options.output}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

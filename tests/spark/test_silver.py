"""Silver's judgement of single records, and its table and dead letters after batches that overlap."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla_spark import silver
from ottla_spark.bronze import COLUMNS
from ottla_spark.settings import PipelineSettings

EVENT_TIME = datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
FLIGHT = {
    "flight_id": "UA1545-EWR-2013-01-01T10:15:00Z",
    "event_time": "2013-01-01T10:15:00Z",
    "carrier": "UA",
    "flight": 1545,
    "origin": "EWR",
    "dest": "IAH",
    "dep_time": 517,
    "dep_delay": 2,
}


def records(spark: Any, *values: bytes | None, arrival: datetime = EVENT_TIME) -> Any:
    rows = [
        (b"UA", None if value is None else bytearray(value), None, "flights", 0, offset, arrival, 0)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def judged(spark: Any, value: bytes | None, *, arrival: datetime = EVENT_TIME) -> Any:
    return silver.judge(records(spark, value, arrival=arrival), lateness_minutes_max=120).collect()[0]


def encoded(**changes: object) -> bytes:
    return json.dumps(FLIGHT | changes).encode()


def test_good_record_is_typed_and_has_no_error(spark: Any) -> None:
    row = judged(spark, encoded())

    assert (row.error_class, row.error) == (None, None)
    assert (row.event.flight, row.event.dep_delay, row.event.tailnum) == (1545, 2, None)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param(None, "not JSON", id="tombstone"),
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(encoded()[:40], "not JSON", id="cut-off"),
        pytest.param(b"\xff\xfe" + encoded()[2:], "not JSON", id="not-text"),
        pytest.param(b"[]", "not JSON", id="an-array"),
        pytest.param(b"7", "not JSON", id="a-number"),
        pytest.param(encoded(dep_delay="soon"), "not JSON", id="text-for-a-number"),
        pytest.param(encoded(dep_delay=1.5), "not JSON", id="a-fraction-for-an-integer"),
        pytest.param(encoded(dep_delay=2**31), "not JSON", id="a-number-too-large"),
        pytest.param(encoded(event_time="yesterday"), "not JSON", id="not-a-time"),
        pytest.param(encoded(origin=None), "required fields are missing: origin", id="null"),
        pytest.param(b'{"dest":"IAH"}', "flight_id, event_time, carrier, flight, origin", id="most-fields-missing"),
    ],
)
def test_record_that_is_no_flight_is_malformed(value: bytes | None, says: str, spark: Any) -> None:
    row = judged(spark, value)

    assert row.error_class == silver.MALFORMED
    assert says in row.error


@pytest.mark.parametrize("unknown", ["dep_time", "dep_delay", "tailnum", "air_time"])
def test_missing_optional_fields_are_no_error(unknown: str, spark: Any) -> None:
    assert judged(spark, encoded(**{unknown: None})).error_class is None


def test_fields_that_the_schema_does_not_know_are_ignored(spark: Any) -> None:
    assert judged(spark, encoded(gate="A7")).error_class is None


@pytest.mark.parametrize(
    ("lateness", "error"),
    [
        pytest.param(timedelta(minutes=-5), None, id="before-its-event-time"),
        pytest.param(timedelta(minutes=120), None, id="exactly-at-the-limit"),
        pytest.param(
            timedelta(minutes=120, seconds=1),
            "arrived 120 minutes after its event time; 120 are allowed",
            id="a-second-past-the-limit",
        ),
        pytest.param(timedelta(days=2), "arrived 2880 minutes after its event time; 120 are allowed", id="days"),
    ],
)
def test_late_is_by_the_record_s_own_times(lateness: timedelta, error: str | None, spark: Any) -> None:
    row = judged(spark, encoded(), arrival=EVENT_TIME + lateness)

    assert (row.error_class, row.error) == (error and silver.LATE, error)


def test_flight_is_inserted_once_for_any_batches(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PipelineSettings(bootstrap_servers="h:1", table_root=str(tmp_path), checkpoint_root=str(tmp_path / "c"))
    silver.create_table(spark, settings)

    def insert(*values: bytes) -> None:
        silver._insert_new(silver.judge(records(spark, *values), lateness_minutes_max=120), settings)

    first = encoded(dep_delay=2)
    other = encoded(flight_id="B61-JFK-2013-01-01T09:00:00Z", event_time="2013-01-01T09:00:00Z", carrier="B6")
    insert(first, encoded(dep_delay=3))
    insert(first, encoded(dep_delay=4), other)  # a batch repeated, with more
    insert(b"nothing good in here")

    table = spark.read.format("delta").load(settings.table("silver"))
    assert sorted((row.carrier, row.dep_delay, row.offset) for row in table.collect()) == [("B6", 2, 2), ("UA", 2, 0)]

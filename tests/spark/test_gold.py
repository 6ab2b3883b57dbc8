"""Gold is a function of silver: each cell, and the table after any batches."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ottla_spark import gold, silver
from ottla_spark.settings import PipelineSettings
from ottla_spark.table import GoldRow

_NAMES = [line.split()[0] for line in silver.columns().replace("\n", " ").split(",")]


def flight(
    number: int, *, origin: str = "EWR", minute: int = 15, hour: int = 10, **fields: int | None
) -> tuple[Any, ...]:
    at = datetime(2013, 1, 1, hour, minute, tzinfo=UTC)
    row = {"flight_id": f"UA{number}", "event_time": at, "carrier": "UA", "flight": number, "origin": origin, **fields}
    return tuple(row.get(name) for name in _NAMES)


def table_after(spark: Any, folder: Path, *batches: list[tuple[Any, ...]]) -> list[GoldRow]:
    """The gold table after ``batches`` of new silver rows, each written to silver and then merged."""
    settings = PipelineSettings(bootstrap_servers="h:1", table_root=str(folder), checkpoint_root=str(folder / "c"))
    silver.create_table(spark, settings)
    gold.create_table(spark, settings)
    for batch in batches:
        rows = spark.createDataFrame(batch, silver.columns())
        rows.write.format("delta").mode("append").save(settings.table("silver"))
        gold._merge_windows(rows, settings)
    return gold.rows(spark, settings)


def test_every_cell_of_a_window(spark: Any, tmp_path: Path) -> None:
    rows = [
        flight(1, dep_time=1, dep_delay=15, arr_delay=-4),
        flight(2, dep_time=1, dep_delay=16, arr_delay=20),
        flight(3, dep_time=1, dep_delay=-6),  # departed, and was diverted
        flight(4),  # cancelled
    ]

    assert table_after(spark, tmp_path, rows) == [
        GoldRow(
            origin="EWR",
            hour="2013-01-01T10:00:00Z",
            flights=4,
            departed=3,
            cancelled=1,
            arrived=2,
            dep_delay_minutes_sum=25,
            dep_delay_minutes_max=16,
            arr_delay_minutes_sum=16,
            delayed_over_15=1,
            dep_delay_minutes_mean=25 / 3,
            delayed_share=1 / 3,
        )
    ]


def test_window_without_departures_has_no_mean(spark: Any, tmp_path: Path) -> None:
    [row] = table_after(spark, tmp_path, [flight(1), flight(2)])

    assert (row.flights, row.cancelled, row.dep_delay_minutes_sum) == (2, 2, 0)
    assert (row.dep_delay_minutes_max, row.dep_delay_minutes_mean, row.delayed_share) == (None, None, None)


def test_windows_are_whole_hours_per_origin(spark: Any, tmp_path: Path) -> None:
    rows = [flight(1, minute=0), flight(2, minute=59), flight(3, hour=11, minute=0), flight(4, origin="JFK")]

    found = table_after(spark, tmp_path, rows)

    assert [(row.origin, row.hour[11:13], row.flights) for row in found] == [
        ("EWR", "10", 2),
        ("JFK", "10", 1),
        ("EWR", "11", 1),
    ]


def test_batch_boundaries_do_not_change_the_result(spark: Any, tmp_path: Path) -> None:
    rows = [
        flight(number, hour=10 + number % 3, origin="JFK" if number % 4 else "LGA", dep_time=1, dep_delay=number)
        for number in range(12)
    ]

    at_once = table_after(spark, tmp_path / "once", rows)
    in_three = table_after(spark, tmp_path / "three", rows[7:], rows[:3], rows[3:7])

    assert in_three == at_once


def test_repeated_batch_changes_nothing(spark: Any, tmp_path: Path) -> None:
    settings = PipelineSettings(bootstrap_servers="h:1", table_root=str(tmp_path), checkpoint_root=str(tmp_path / "c"))
    rows = [flight(1, dep_time=1, dep_delay=5), flight(2)]
    before = table_after(spark, tmp_path, rows)

    gold._merge_windows(spark.createDataFrame(rows, silver.columns()), settings)
    gold._merge_windows(spark.createDataFrame([], silver.columns()), settings)

    assert gold.rows(spark, settings) == before

"""The plot: hours are New York's, sums are gold's, and a file is written."""

from pathlib import Path

import pytest

from ottla_spark.plot import by_hour_of_day, main, plot
from ottla_spark.table import GoldRow, write_gold


def gold_row(origin: str, hour: str, flights: int = 10, delay: int = 50) -> GoldRow:
    return GoldRow(origin, hour, flights, flights, 0, flights, delay, 30, 20, 3, delay / flights, 0.3)


def test_windows_are_summed_by_local_hour_over_the_clock_change() -> None:
    """11:00 UTC in January and 10:00 UTC in July are both six in the morning."""
    rows = [gold_row("EWR", "2013-01-05T11:00:00Z"), gold_row("EWR", "2013-07-05T10:00:00Z", 4, 8)]

    [(origin, hours)] = by_hour_of_day(rows).items()

    assert origin == "EWR"
    assert list(hours) == [6]
    assert (hours[6].flights, hours[6].dep_delay_minutes_sum, len(hours[6].days)) == (14, 58, 2)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([gold_row("EWR", "2013-01-05T11:00:00Z", 500, 4_000)], id="one-window"),
        pytest.param([gold_row("EWR", "2013-01-05T11:00:00Z", 3)], id="too-few-flights-for-a-mean"),
        pytest.param(
            [
                gold_row(origin, f"2013-01-05T{hour}:00:00Z", 500, 9_000)
                for origin in ("EWR", "SFO")
                for hour in (11, 20)
            ],
            id="an-airport-without-a-name",
        ),
    ],
)
@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")], ids=["png", "svg"])
def test_picture_is_written(rows: list[GoldRow], suffix: str, magic: bytes, tmp_path: Path) -> None:
    plot(rows, tmp_path / f"delays.{suffix}")

    assert (tmp_path / f"delays.{suffix}").read_bytes().startswith(magic)


def test_command_draws_a_gold_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gold(tmp_path / "gold.csv", [gold_row("EWR", "2013-01-05T11:00:00Z")])

    assert main(["--gold", str(tmp_path / "gold.csv"), "-o", str(tmp_path / "delays.png")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "delays.png")


def test_empty_table_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gold(tmp_path / "gold.csv", [])

    assert main(["--gold", str(tmp_path / "gold.csv")]) == 1
    assert "no rows" in capsys.readouterr().err

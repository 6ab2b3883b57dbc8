"""Gold outside Spark: a written table reads back the same, equal tables have equal digests, and the summary adds up."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.table import GoldFileError, GoldRow, gold_digest, read_gold, summarize, summary_lines, write_gold


def gold_row(origin: str = "EWR", hour: str = "2013-01-01T10:00:00Z", **cells: float | None) -> GoldRow:
    row = GoldRow(origin, hour, 2, 2, 0, 2, 30, 20, 11, 1, 15.0, 0.5)
    return row._replace(**cells)  # type: ignore[arg-type]


ROWS = st.lists(
    st.builds(
        gold_row,
        origin=st.sampled_from(["EWR", "JFK", "LGA"]),
        hour=st.datetimes().map(lambda at: at.strftime("%Y-%m-%dT%H:00:00Z")),
        flights=st.integers(0, 10**9),
        dep_delay_minutes_max=st.none() | st.integers(-100, 2000),
        dep_delay_minutes_mean=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=5,
)


@given(rows=ROWS)
def test_written_table_reads_back_the_same(rows: list[GoldRow], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("gold") / "gold.csv"

    write_gold(path, rows)

    assert read_gold(path) == rows


@given(rows=ROWS)
def test_digest_does_not_depend_on_order_but_on_every_cell(rows: list[GoldRow]) -> None:
    assert gold_digest(reversed(rows)) == gold_digest(rows) or len({row[:2] for row in rows}) < len(rows)
    if rows:
        assert gold_digest([rows[0]._replace(flights=rows[0].flights + 1), *rows[1:]]) != gold_digest(rows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "not a gold table", id="empty"),
        pytest.param("a,b\n1,2\n", "not a gold table", id="another-table"),
        pytest.param(",".join(GoldRow._fields) + "\nEWR,2013-01-01T10:00:00Z,x\n", "line 2", id="not-a-number"),
    ],
)
def test_other_file_is_rejected(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text(text)

    with pytest.raises(GoldFileError, match=reason):
        read_gold(path)


def test_truncated_row_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    path.write_text(",".join(GoldRow._fields) + "\nEWR,2013-01-01T10:00:00Z,1,2\n")

    with pytest.raises(GoldFileError, match="line 2"):
        read_gold(path)


def test_summary_adds_up_per_origin() -> None:
    rows = [
        gold_row(),
        gold_row(hour="2013-01-01T11:00:00Z", flights=9, departed=8, cancelled=1, dep_delay_minutes_sum=170,
                 delayed_over_15=4, dep_delay_minutes_mean=21.25),
        gold_row("LGA", departed=0, dep_delay_minutes_sum=0, delayed_over_15=0, dep_delay_minutes_mean=None),
    ]  # fmt: skip

    newark, laguardia = summarize(rows)

    assert (newark.flights, newark.cancelled, newark.dep_delay_minutes_mean, newark.delayed_share) == (11, 1, 20.0, 0.5)
    assert (newark.worst_hour, newark.worst_hour_dep_delay_minutes_mean) == ("2013-01-01T11:00:00Z", 21.25)
    assert (laguardia.dep_delay_minutes_mean, laguardia.delayed_share) == (0.0, 0.0)


def test_summary_s_columns_are_aligned() -> None:
    header, *lines = summary_lines([gold_row(), gold_row("JFK", flights=120_000)])

    assert {len(line) for line in lines} == {len(header)}

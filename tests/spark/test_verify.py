"""The proof: pandas and the standard library agree over all flights, and the smallest difference is found and named."""

import json
from pathlib import Path

import pytest

from ottla_spark.dirt import DEMO, Dirt
from ottla_spark.table import GoldRow, gold_digest, write_gold
from ottla_spark.verify import (
    Account,
    VerificationError,
    differences,
    expected_by_csv,
    expected_by_pandas,
    main,
    verify,
)


@pytest.fixture(scope="module")
def expected(rows: list[dict[str, str]]) -> list[GoldRow]:
    return expected_by_csv(rows)


def test_pandas_and_the_standard_library_agree_in_every_cell(expected: list[GoldRow]) -> None:
    by_pandas = expected_by_pandas()

    assert by_pandas == expected
    assert gold_digest(by_pandas) == gold_digest(expected)


def test_every_flight_is_in_exactly_one_window(expected: list[GoldRow]) -> None:
    assert sum(row.flights for row in expected) == 336_776
    assert sum(row.cancelled for row in expected) == 8_255
    assert len({(row.origin, row.hour) for row in expected}) == len(expected)


def test_equal_tables_pass_in_any_order(expected: list[GoldRow]) -> None:
    verify(expected[::-1], expected, account=Account.expected(DEMO), dirt=DEMO)

    assert differences(expected[::-1], expected) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"flights": 3}, "flights is 3, must be 6", id="a-count"),
        pytest.param({"dep_delay_minutes_mean": None}, "dep_delay_minutes_mean is None", id="a-null"),
        pytest.param({"delayed_share": 0.5000000000000001}, "delayed_share is 0.5000000000000001", id="the-last-bit"),
    ],
)
def test_one_wrong_cell_is_named(change: dict[str, float | None], says: str, expected: list[GoldRow]) -> None:
    right = expected[0]._replace(flights=6, delayed_share=0.5)
    wrong = right._replace(**change)  # type: ignore[arg-type]

    with pytest.raises(VerificationError, match=says) as raised:
        verify([wrong], [right])
    assert f"{right.origin} {right.hour}" in str(raised.value)


def test_missing_foreign_and_double_rows_are_named(expected: list[GoldRow]) -> None:
    first, second, third = expected[:3]

    with pytest.raises(VerificationError, match="missing in gold"):
        verify([first], [first, second])
    with pytest.raises(VerificationError, match="no such flight"):
        verify([first, third], [first])
    with pytest.raises(VerificationError, match="more than one row"):
        verify([first, first], [first])


def test_only_the_first_differences_are_listed(expected: list[GoldRow]) -> None:
    with pytest.raises(VerificationError, match="differs from the CSV in 100 of 100 rows") as raised:
        verify([], expected[:100])

    assert str(raised.value).count("missing in gold") == 5


@pytest.mark.parametrize("field", ["records", "flights", "duplicates", "malformed", "late"])
def test_extra_record_in_any_stage_is_found(field: str) -> None:
    dirt = Dirt(duplicates=3, malformed=2, late=1)
    right = Account.expected(dirt, flights=0)
    wrong = Account(**{name: getattr(right, name) + (name == field) for name in Account.__slots__})

    verify([], [], account=right, dirt=dirt)
    with pytest.raises(VerificationError, match="do not add up"):
        verify([], [], account=wrong, dirt=dirt)


@pytest.mark.parametrize("late", [pytest.param(750, id="adds-up"), pytest.param(749, id="does-not")])
def test_command_compares_files_with_pandas(
    late: int, expected: list[GoldRow], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_gold(tmp_path / "gold.csv", expected)
    account = {"records": 342_026, "flights": 336_776, "duplicates": 3_000, "malformed": 1_500, "late": late}
    (tmp_path / "report.json").write_text(json.dumps({"account": account}))

    exit_code = main(["--gold", str(tmp_path / "gold.csv"), "--report", str(tmp_path / "report.json")])

    out, err = capsys.readouterr()
    assert (exit_code, "gold equals pandas: 19,486 rows" in out, "do not add up" in err) == (
        (0, True, False) if late == 750 else (1, False, True)
    )


def test_command_says_which_file_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gold", str(tmp_path / "none.csv")]) == 1
    assert "none.csv" in capsys.readouterr().err

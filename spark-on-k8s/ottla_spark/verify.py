"""Prove the gold table: compute the same statistics from the CSV, without Spark or Kafka, and compare every cell.

Two independent computations: pandas (`expected_by_pandas`), and the standard library alone for images without pandas
(`expected_by_csv`). Both take the hour from the CSV's ``time_hour``, while the events carry the scheduled departure
converted from local time: a mistake in either shows.

Usage: ``python -m ottla_spark.verify --gold gold.csv [--report report.json --dirt none|duplicates=N,...]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla_spark.dirt import DEMO, Dirt, DirtError
from ottla_spark.flights import FlightsMissingError, csv_archive, csv_rows
from ottla_spark.table import DELAYED_OVER_MINUTES, GoldFileError, GoldRow, gold_digest, read_gold

FLIGHTS = 336_776
_DIFFERENCES_SHOWN = 5


class VerificationError(AssertionError):
    """Gold, or the account of records, differs from the CSV; lists the first differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Account of the topic's records: each is in exactly one of the last four counts."""

    records: int
    flights: int
    duplicates: int
    malformed: int
    late: int

    @classmethod
    def expected(cls, dirt: Dirt, *, flights: int = FLIGHTS) -> Account:
        return cls(
            records=flights + dirt.records,
            flights=flights,
            duplicates=dirt.duplicates,
            malformed=dirt.malformed,
            late=dirt.late,
        )


def expected_by_pandas() -> list[GoldRow]:
    """Return gold as pandas computes it from the CSV, in order of hour and origin."""
    import pandas

    flights = pandas.read_csv(csv_archive())
    flights["delayed"] = flights.dep_delay > DELAYED_OVER_MINUTES
    groups = flights.groupby(["time_hour", "origin"])
    table = groups.agg(
        flights=("flight", "size"),
        departed=("dep_time", "count"),
        arrived=("arr_delay", "count"),
        dep_sum=("dep_delay", "sum"),
        dep_max=("dep_delay", "max"),
        arr_sum=("arr_delay", "sum"),
        delayed=("delayed", "sum"),
    )
    # Floats only because of missing values; all of them are whole numbers far below 2**53.
    return [
        _gold_row(
            origin=row.Index[1],
            hour=row.Index[0],
            flights=int(row.flights),
            departed=int(row.departed),
            arrived=int(row.arrived),
            dep_delay_sum=int(row.dep_sum),
            dep_delay_max=None if pandas.isna(row.dep_max) else int(row.dep_max),
            arr_delay_sum=int(row.arr_sum),
            delayed=int(row.delayed),
        )
        for row in table.itertuples()
    ]


def expected_by_csv(rows: Iterable[dict[str, str]] | None = None) -> list[GoldRow]:
    """Return the same as `expected_by_pandas`, computed with the standard library; of only ``rows`` when given."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv_rows() if rows is None else rows:
        groups.setdefault((row["time_hour"], row["origin"]), []).append(row)
    expected = []
    for (hour, origin), group in sorted(groups.items()):
        dep_delays = [int(row["dep_delay"]) for row in group if row["dep_delay"] not in _MISSING]
        arr_delays = [int(row["arr_delay"]) for row in group if row["arr_delay"] not in _MISSING]
        departed = sum(row["dep_time"] not in _MISSING for row in group)
        delayed = sum(delay > DELAYED_OVER_MINUTES for delay in dep_delays)
        expected.append(
            _gold_row(
                origin=origin,
                hour=hour,
                flights=len(group),
                departed=departed,
                arrived=len(arr_delays),
                dep_delay_sum=sum(dep_delays),
                dep_delay_max=max(dep_delays, default=None),
                arr_delay_sum=sum(arr_delays),
                delayed=delayed,
            )
        )
    return expected


_MISSING = ("", "NA")


def _gold_row(
    *,
    origin: str,
    hour: str,
    flights: int,
    departed: int,
    arrived: int,
    dep_delay_sum: int,
    dep_delay_max: int | None,
    arr_delay_sum: int,
    delayed: int,
) -> GoldRow:
    return GoldRow(
        origin=origin,
        hour=hour,
        flights=flights,
        departed=departed,
        cancelled=flights - departed,
        arrived=arrived,
        dep_delay_minutes_sum=dep_delay_sum,
        dep_delay_minutes_max=dep_delay_max,
        arr_delay_minutes_sum=arr_delay_sum,
        delayed_over_15=delayed,
        dep_delay_minutes_mean=dep_delay_sum / departed if departed else None,
        delayed_share=delayed / departed if departed else None,
    )


def differences(found: Iterable[GoldRow], expected: Iterable[GoldRow]) -> list[str]:
    """Return one line per origin and hour in which the two differ, in order; empty when all cells are equal."""
    found_by_key = {(row.hour, row.origin): row for row in found}
    expected_by_key = {(row.hour, row.origin): row for row in expected}
    lines = []
    for key in sorted(found_by_key.keys() | expected_by_key.keys()):
        got, want = found_by_key.get(key), expected_by_key.get(key)
        if got != want:
            lines.append(f"{key[1]} {key[0]}: {_difference(got, want)}")
    return lines


def _difference(got: GoldRow | None, want: GoldRow | None) -> str:
    if got is None:
        return "missing in gold"
    if want is None:
        return "in gold, but there is no such flight in the CSV"
    cells = zip(GoldRow._fields, got, want, strict=True)
    return ", ".join(f"{name} is {mine!r}, must be {theirs!r}" for name, mine, theirs in cells if mine != theirs)


def verify(
    gold: Sequence[GoldRow], expected: Sequence[GoldRow], *, account: Account | None = None, dirt: Dirt | None = None
) -> None:
    """Compare gold with ``expected``, every cell, and the account with the flights and the counts of ``dirt``.

    The account is left out when it or ``dirt`` is None.

    Raises:
        VerificationError: anything differs, or gold has a row twice.
    """
    problems = []
    if account is not None and dirt is not None:
        flights = sum(row.flights for row in expected)
        if account != (wanted := Account.expected(dirt, flights=flights)):
            problems.append(f"the records do not add up: found {account}, must be {wanted}")
    if len({(row.hour, row.origin) for row in gold}) != len(gold):
        problems.append("gold has more than one row for an origin and hour")
    wrong = differences(gold, expected)
    if wrong:
        problems.append(f"gold differs from the CSV in {len(wrong):,} of {len(expected):,} rows:")
        problems += [f"  {line}" for line in wrong[:_DIFFERENCES_SHOWN]]
    if problems:
        raise VerificationError("\n".join(problems))


def main(arguments: list[str] | None = None) -> int:
    """Compare a gold file with pandas; return 0, or 1 with the first differences on stderr."""
    parser = argparse.ArgumentParser(prog="python -m ottla_spark.verify", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gold", type=Path, required=True, metavar="FILE", help="what the pipeline's --gold wrote")
    parser.add_argument("--report", type=Path, metavar="FILE", help="what its --report wrote: check the account too")
    parser.add_argument(
        "--dirt", default=str(DEMO), help="what the topic was fed: 'none' or counts; default %(default)s"
    )
    options = parser.parse_args(arguments)
    try:
        gold = read_gold(options.gold)
        account = _read_account(options.report) if options.report else None
        verify(gold, expected_by_pandas(), account=account, dirt=Dirt.parse(options.dirt))
    except (VerificationError, GoldFileError, DirtError, FlightsMissingError, OSError) as failure:
        sys.stderr.write(f"error: {failure}\n")
        return 1
    sys.stdout.write(f"gold equals pandas: {len(gold):,} rows, SHA-256 {gold_digest(gold)}\n")
    return 0


def _read_account(path: Path) -> Account:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Account(**report["account"])


if __name__ == "__main__":
    raise SystemExit(main())

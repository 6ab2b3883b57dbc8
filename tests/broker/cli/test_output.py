"""Output formats, and confirmation prompts."""

import json
from typing import Any

import click
import pytest
import yaml

from ottla.cli.output import Column, confirm, emit_pairs, emit_rows, emit_value, may_color, to_plain
from ottla.types import TopicPartition

ROWS = [{"name": "flights", "count": 12, "ok": True, "hidden": None}, {"name": "x", "count": 3, "ok": False}]
COLUMNS = [Column("NAME", "name"), Column("COUNT", "count"), Column("OK", "ok"), Column("HIDDEN", "hidden", wide=True)]


def emitted(capsys: pytest.CaptureFixture[str], output: str) -> str:
    emit_rows(ROWS, COLUMNS, output, kind="thing")
    return capsys.readouterr().out


def test_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    assert emitted(capsys, "table") == "NAME     COUNT  OK\nflights  12     yes\nx        3      no\n"


def test_numbers_are_grouped_and_aligned_at_their_last_digit(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [
        Column("NAME", "name"),
        Column("ROWS", "rows", number=",d"),
        Column("TIME (S)", "seconds", number=",.2f"),
    ]
    rows = [{"name": "feed", "rows": 342026, "seconds": 1.5}, {"name": "x", "rows": None, "seconds": 12.346}]

    emit_rows(rows, columns, "table", kind="step")

    assert capsys.readouterr().out == "NAME     ROWS  TIME (S)\nfeed  342,026      1.50\nx           -     12.35\n"


def test_wide_table_has_more_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert emitted(capsys, "wide").splitlines()[1] == "flights  12     yes  -"


def test_names_are_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert emitted(capsys, "name") == "thing/flights\nthing/x\n"


def test_json_and_yaml_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(emitted(capsys, "json")) == yaml.safe_load(emitted(capsys, "yaml")) == ROWS


def test_data_does_not_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    emit_rows([], COLUMNS, "table", kind="thing")

    assert capsys.readouterr() == ("", "no things\n")


def test_pairs_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    emit_pairs([("Name", "x"), ("Replicas", (1, 2)), ("Empty", "")])

    assert capsys.readouterr().out == "Name      x\nReplicas  1,2\nEmpty     -\n"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        pytest.param(TopicPartition("t", 1), {"topic": "t", "partition": 1}, id="named-tuple"),
        pytest.param({"a": {1}}, {"a": [1]}, id="nested-set"),
        pytest.param(Column, str(Column), id="anything-else-is-text"),
    ],
)
def test_values_become_plain(value: Any, plain: Any) -> None:
    assert to_plain(value) == plain


def test_value_that_is_not_ascii_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    emit_value({"name": "Žižkov"}, "json")

    assert "Žižkov" in capsys.readouterr().out


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert may_color()

    monkeypatch.setenv("NO_COLOR", "1")
    assert not may_color()


def test_yes_skips_the_prompt() -> None:
    assert not confirm("Delete?", yes=True)


def test_without_a_terminal_yes_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)

    with pytest.raises(click.UsageError, match="repeat with --yes"):
        confirm("Delete?", yes=False)

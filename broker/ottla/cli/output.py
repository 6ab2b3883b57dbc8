"""Output formats: aligned tables, JSON and YAML for programs, names for pipes."""

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

import click

_T = TypeVar("_T")

Row: TypeAlias = Mapping[str, Any]

FORMS = ("table", "wide", "json", "yaml", "name")


class Column(NamedTuple):
    """One column of a table: its title and the row's key; ``wide`` columns appear with ``-o wide`` only.

    ``number`` is the format of a column of numbers, such as ``,d`` or ``,.2f``; they are right-aligned.
    """

    title: str
    key: str
    wide: bool = False
    number: str = ""


def output_option(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds ``-o/--output``; all forms unless some are named."""
    chosen = forms or FORMS
    return click.option(
        "-o", "--output", type=click.Choice(chosen), default=chosen[0], show_default=True, help="Form of the data."
    )


def emit_rows(
    rows: Sequence[Row], columns: Sequence[Column], output: str, *, kind: str, name_key: str = "name", nothing: str = ""
) -> None:
    """Print a list of objects; ``kind`` and ``name_key`` give the names of ``-o name``.

    ``nothing`` is the message of an empty table, by default "no" and the kind.
    """
    if output in ("json", "yaml"):
        emit_value(list(rows), output)
    elif output == "name":
        for row in rows:
            click.echo(f"{kind}/{row[name_key]}")
    elif rows:
        emit_table(rows, columns, wide=output == "wide")
    else:
        talk(nothing or f"no {kind}s")


def emit_descriptions(described: Sequence[_T], output: str, show: Callable[[_T], None]) -> None:
    """Print what a ``describe`` command found: for programs a list, or the only object; else each by ``show``."""
    if output in ("json", "yaml"):
        emit_value(described[0] if len(described) == 1 else described, output)
        return
    for index, one in enumerate(described):
        if index:
            click.echo()
        show(one)


def emit_value(value: Any, output: str) -> None:  # noqa: ANN401 - any JSON value
    """Print ``value`` as JSON or YAML."""
    plain = to_plain(value)
    if output == "yaml":
        from ottla.cli.yaml_form import to_yaml

        click.echo(to_yaml(plain), nl=False)
    else:
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def emit_table(rows: Sequence[Row], columns: Sequence[Column], *, wide: bool = False) -> None:
    """Print an aligned table with titles."""
    shown = [column for column in columns if wide or not column.wide]
    lines = [[column.title for column in shown]]
    lines += [[cell(row.get(column.key), column.number) for column in shown] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(shown))]
    aligns = [">" if column.number else "<" for column in shown]
    for line in lines:
        cells = (f"{text:{align}{width}}" for text, align, width in zip(line, aligns, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def emit_pairs(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and aligned values, a line each."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{name.ljust(width)}  {cell(value)}".rstrip())


def cell(value: Any, number: str = "") -> str:  # noqa: ANN401 - whatever a row holds
    """Return ``value`` as one cell of a table, a number in the format ``number`` if there is one."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(str(entry) for entry in value) or "-"
    return format(value, number) if number else str(value)


def to_plain(value: Any) -> Any:  # noqa: ANN401 - recursive over anything
    """Return ``value`` converted to JSON types; dataclasses become objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: to_plain(entry) for key, entry in value._asdict().items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(entry) for entry in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def talk(text: str) -> None:
    """Print a message to stderr, so that it does not mix with data."""
    click.echo(text, err=True)


def may_color() -> bool:
    """Return whether stderr is a terminal and colors are not disabled (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emphasize(text: str) -> str:
    """Return ``text`` in bold if colors are enabled."""
    return click.style(text, bold=True) if may_color() else text


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user confirms, by ``--yes`` or at a prompt on a terminal.

    Raises:
        click.UsageError: there is no terminal for the prompt.
        click.Abort: the user declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal for a prompt: repeat with --yes to confirm.")
    click.confirm(question, abort=True, err=True)


def confirm_deletion(objects: Sequence[str], question: str, *, yes: bool, dry_run: bool) -> bool:
    """Show what is to be deleted; return whether to delete it: False in a dry run. Raises as `confirm` does."""
    for name in objects:
        talk(f"{name}{' would be deleted' if dry_run else ''}")
    if dry_run:
        return False
    confirm(question, yes=yes)
    return True

"""Click groups whose commands are imported on use, and commands whose help ends with examples.

``ottla --help`` imports no command: the table has the short help.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

SENTENCE_LENGTH_MAX = 200


class Entry(NamedTuple):
    """The location of a command (``module:attribute``) and its short help."""

    target: str
    short_help: str


class LazyGroup(click.Group):
    """A group with sections of commands: title -> name -> `Entry`."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Entry]], **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._sections = sections
        self._entries = {name: entry for entries in sections.values() for name, entry in entries.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.short_help) for name, entry in entries.items()])


class ExampleCommand(click.Command):
    """A command with ``examples``, lines that can be copied to a shell."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self.examples = tuple(examples)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the whole first sentence: a list of commands wraps it instead of truncating it as click does."""
        return super().get_short_help_str(limit=max(limit, SENTENCE_LENGTH_MAX))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")

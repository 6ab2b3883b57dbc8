"""Progress on stderr: a bar that redraws itself on a terminal, one line at the end anywhere else."""

import sys
import time
from types import TracebackType
from typing import Self

import click

from ottla.cli.output import may_color

BAR_CELLS = 30
REDRAW_INTERVAL_S = 0.1


class ProgressBar:
    """One stage's progress. ``with ProgressBar("feed", total=100) as bar: bar.update(10)``."""

    def __init__(self, title: str, *, total: int = 0) -> None:
        self._title = title
        self._total = total
        self._drawn_s = time.monotonic()
        self._is_live = sys.stderr.isatty()
        self._done = 0
        self._note = ""

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_live:
            click.echo("\r\x1b[2K", nl=False, err=True)

    def update(self, done: int, *, total: int | None = None, note: str = "") -> None:
        """Show that ``done`` of the total are completed; ``note`` is printed after the bar."""
        self._done, self._note = done, note
        self._total = self._total if total is None else total
        now_s = time.monotonic()
        if now_s - self._drawn_s >= REDRAW_INTERVAL_S:
            self._drawn_s = now_s
            self._draw()

    def _draw(self) -> None:
        if not self._is_live:
            return
        line = f"  {self._title:<8} {bar(self._done, self._total)} {self._note}"
        # \x1b[2K clears the rest of a longer previous line.
        click.echo(f"\r\x1b[2K{click.style(line, bold=True) if may_color() else line}", nl=False, err=True)


def bar(done: int, total: int) -> str:
    """Return ``[#####-----]  50%``; without a total, an empty bar."""
    share = min(done / total, 1.0) if total else 0.0
    filled = int(share * BAR_CELLS)
    return f"[{'#' * filled}{'-' * (BAR_CELLS - filled)}] {share:>4.0%}"

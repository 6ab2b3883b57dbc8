"""``ottla wait-for``: wait until a file has been written; for containers without a shell."""

from pathlib import Path

import click

from ottla.cli.lazy import ExampleCommand

POLL_S = 0.2


@click.command("wait-for", cls=ExampleCommand, examples=["ottla wait-for /etc/ottla-pod/rack"])
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def wait_for(file: Path) -> None:
    """Wait until FILE exists and is not empty, then print its contents."""
    import time

    if not _content(file):
        click.echo(f"waiting for {file}", err=True)
    while not (content := _content(file)):
        time.sleep(POLL_S)
    click.echo(content)


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""

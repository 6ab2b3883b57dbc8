"""``ottla completion``: completion scripts for shells."""

import click
from click.shell_completion import get_completion_class

from ottla.cli.lazy import ExampleCommand


@click.command(
    cls=ExampleCommand,
    examples=[
        'eval "$(ottla completion bash)"                 # in ~/.bashrc',
        'eval "$(ottla completion zsh)"                  # in ~/.zshrc',
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    ],
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script for SHELL."""
    from ottla.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "ottla", "_OTTLA_COMPLETE").source())
